// Threads of a block as fibres, one at a time; what they wait for; and what may go wrong.
//
// A fibre runs threads of the block one after the other, until one has to wait. That thread keeps
// the fibre, and another fibre goes on with the next thread. So a kernel without barriers is a
// plain loop over its threads on one fibre. Which thread runs next is the *schedule*: always the
// first that can run, or always the last. What two schedules compute differs where the kernel
// depends on an order that the device does not promise.
//
// Every failure ends the launch by a jump out of the fibre: a divergence, a wrong mask, undefined
// behaviour (the compiler calls __ubsan_handle_*), a signal (guard pages), too much time.

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#if !defined(__x86_64__) && !defined(FTRACE_UCONTEXT)
#define FTRACE_UCONTEXT
#endif
#include <ucontext.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
typedef unsigned long long u64;
struct Index { unsigned x, y, z; };

EXPORT Index ftrace_threadIdx, ftrace_blockIdx, ftrace_blockDim, ftrace_gridDim;
EXPORT char* ftrace_dynamic_shared;
Index ftrace_threadIdx, ftrace_blockIdx, ftrace_blockDim, ftrace_gridDim;
char* ftrace_dynamic_shared;

namespace {

const int THREADS = 1024, WARP = 32;
#if defined(__x86_64__)
const size_t PAGE = 4096;
#else
const size_t PAGE = 64 * 1024;  // the largest of the others
#endif
const size_t STACK = 60 * 1024 + PAGE;  // its first page is a guard
const size_t SHARED = 256 * 1024;

// --- the launch

struct Launch {
  const char* name;
  void (*run)(const void* words);
  const void* words;
  int threads;
  bool reversed;
} launch;
char message[4096];
sigjmp_buf escape;
pthread_t launcher;

void say(const char* format, ...) {
  const size_t used = strlen(message);
  va_list more;
  va_start(more, format);
  vsnprintf(message + used, sizeof(message) - used, format, more);
  va_end(more);
}

void begin_message(bool of_thread = true) {
  const Index b = ftrace_blockIdx, t = ftrace_threadIdx;
  message[0] = 0;
  say("Kernel %s failed in block (%u, %u, %u)", launch.name, b.x, b.y, b.z);
  if (of_thread) say(", thread (%u, %u, %u)", t.x, t.y, t.z);
  say(": ");
}

[[noreturn]] void end() { siglongjmp(escape, 1); }

// --- fibres

#ifndef FTRACE_UCONTEXT
extern "C" void ftrace_switch(void** save, void* load);
asm(R"(
.text
.local ftrace_switch
.type ftrace_switch, @function
ftrace_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size ftrace_switch, .-ftrace_switch
)");
typedef void* Context;
void go(Context* from, Context* to) { ftrace_switch(from, *to); }
void prepare(Context* context, char* stack, void (*body)()) {
  void** top = (void**)(stack + STACK);
  top[-1] = nullptr;  // body never returns; on entry the stack is 8 bytes off a multiple of 16
  top[-2] = (void*)body;
  memset(top - 8, 0, 6 * sizeof(void*));
  *context = top - 8;
}
#else
typedef ucontext_t Context;
void go(Context* from, Context* to) { swapcontext(from, to); }
void prepare(Context* context, char* stack, void (*body)()) {
  getcontext(context);
  context->uc_stack.ss_sp = stack + PAGE;
  context->uc_stack.ss_size = STACK - PAGE;
  context->uc_link = nullptr;
  makecontext(context, body, 0);
}
#endif

struct Fibre { Context context; bool used; };
Fibre fibres[THREADS], scheduler;
Fibre* running = &scheduler;
Fibre* idle[THREADS];
int fibres_made, idle_count;
char* stacks;

void body() {
  for (;;) launch.run(launch.words);
}

Fibre* idle_fibre() {
  if (!idle_count) {
    char* stack = stacks + STACK * fibres_made;
    mprotect(stack, PAGE, PROT_NONE);
    prepare(&fibres[fibres_made].context, stack, body);
    idle[idle_count++] = &fibres[fibres_made++];
  }
  Fibre* f = idle[--idle_count];
  f->used = true;
  return f;
}

void go_on(Fibre* to) {
  Fibre* from = running;
  running = to;
  if (from != to) go(&from->context, &to->context);
}

// Frames of the last kernel are given up: they own nothing.
void reset_fibres() {
  idle_count = 0;
  running = &scheduler;
  for (int i = fibres_made - 1; i >= 0; --i) {
    if (fibres[i].used) prepare(&fibres[i].context, stacks + STACK * i, body);
    fibres[i].used = false;
    idle[idle_count++] = &fibres[i];
  }
}

// --- threads of a block

struct Thread {
  Index index;
  Fibre* fibre;  // none before its first statement
  bool done, waits;
  const char* what;
  int line, source;
  unsigned mask;
  u64 value, result;
} threads[THREADS];
const char* const BARRIER = "__syncthreads";
unsigned ready[WARP], ready_warps;
unsigned arrived[WARP];  // lanes of a warp that wait in a collective
int current, pending, finished, at_barrier;

void make_ready(int t) {
  threads[t].waits = false;
  ready[t / WARP] |= 1u << t % WARP;
  ready_warps |= 1u << t / WARP;
}

int chosen(unsigned bits) {
  return launch.reversed ? 31 - __builtin_clz(bits) : __builtin_ctz(bits);
}

int pick() {
  if (!ready_warps) return -1;
  const int w = chosen(ready_warps), lane = chosen(ready[w]);
  ready[w] &= ~(1u << lane);
  if (!ready[w]) ready_warps &= ~(1u << w);
  return w * WARP + lane;
}

void enter(int t) {
  current = t;
  ftrace_threadIdx = threads[t].index;
}

// The fibre of a thread that can run; of the scheduler for none.
Fibre* fibre_of(int t) {
  if (t < 0) return &scheduler;
  if (!threads[t].fibre) {
    pending = t;
    current = -1;
    return idle_fibre();
  }
  enter(t);
  return threads[t].fibre;
}

void wait() {
  const int next = pick();
  if (next != current) go_on(fibre_of(next));
}

// Who waits where, in one sentence.
[[noreturn]] void fail_waiting(const char* title) {
  begin_message(false);
  say("%s", title);
  int returned = 0;
  for (int t = 0; t < launch.threads; ++t) returned += threads[t].done;
  for (int t = 0; t < launch.threads; ++t) {
    Thread& first = threads[t];
    if (!first.waits) continue;
    int count = 0;
    const bool warp = first.what != BARRIER;
    unsigned lanes = 0;
    for (int other = t; other < launch.threads; ++other) {
      Thread& o = threads[other];
      if (!o.waits || o.line != first.line || strcmp(o.what, first.what) || o.mask != first.mask)
        continue;
      if (warp && other / WARP != t / WARP) continue;
      o.waits = other == t;
      lanes |= 1u << other % WARP;
      ++count;
    }
    first.waits = false;
    if (warp)
      say(" lanes 0x%08x of warp %d wait at %s (line %d) with mask 0x%08x;", lanes, t / WARP,
          first.what, first.line, first.mask);
    else
      say(" %d of %d threads wait at %s (line %d);", count, launch.threads, first.what, first.line);
  }
  say(" %d have returned.", returned);
  end();
}

[[noreturn]] void fail_deadlock() {
  for (int t = 0; t < launch.threads; ++t)
    if (threads[t].waits && threads[t].what != BARRIER)
      fail_waiting("shuffle-mask mismatch:");
  fail_waiting("barrier divergence:");
}

void run_block() {
  memset(ready, 0, sizeof(ready));
  memset(arrived, 0, sizeof(arrived));
  ready_warps = 0;
  finished = at_barrier = 0;
  current = pending = -1;
  for (int t = 0; t < launch.threads; ++t) {
    threads[t].fibre = nullptr;
    threads[t].done = false;
    make_ready(t);
  }
  while (finished < launch.threads) {
    const int next = pick();
    if (next < 0) fail_deadlock();
    go_on(fibre_of(next));
  }
}

// --- signals

void on_signal(int number, siginfo_t* info, void* context) {
  if (!pthread_equal(pthread_self(), launcher)) {
    if (number == SIGVTALRM) pthread_kill(launcher, number);
    else signal(number, SIG_DFL);  // not ours: it happens again, and ends the process
    return;
  }
  begin_message();
  const char* verb = "touches";
#if defined(__x86_64__) && defined(__linux__)
  verb = ((ucontext_t*)context)->uc_mcontext.gregs[REG_ERR] & 2 ? "writes" : "reads";
#endif
  const uintptr_t address = (uintptr_t)info->si_addr, stack = (uintptr_t)stacks;
  if (number == SIGVTALRM)
    say("it takes too long (a loop that does not end?).");
  else if (number == SIGFPE)
    say("an integer is divided by zero, or the quotient overflows.");
  else if (info->si_code == 128)  // SI_KERNEL: x86-64 does not say which address
    say("an address is not a multiple of what a vector needs, or is none at all.");
  else if (number == SIGILL)
    say("it reaches code that cannot be reached.");
  else if (address >= stack && address < stack + STACK * THREADS)
    say("its local variables take more than %d bytes.", (int)(STACK - PAGE));
  else
    say("out of bounds: it %s address 0x%llx.", verb, (u64)address);
  end();
}

const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM};
char signal_stack[64 * 1024];

struct Guarded {  // while it lives, signals of this thread end the launch
  struct sigaction before[5];
  stack_t stack_before;
  explicit Guarded(int seconds) {
    launcher = pthread_self();
    stack_t stack = {};
    stack.ss_sp = signal_stack;
    stack.ss_size = sizeof(signal_stack);
    sigaltstack(&stack, &stack_before);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int i = 0; i < 5; ++i) sigaction(SIGNALS[i], &action, &before[i]);
    timer(seconds);
  }
  ~Guarded() {
    timer(0);
    for (int i = 0; i < 5; ++i) sigaction(SIGNALS[i], &before[i], nullptr);
    sigaltstack(&stack_before, nullptr);
  }
  static void timer(int seconds) {
    struct itimerval value = {};
    value.it_value.tv_sec = seconds;
    setitimer(ITIMER_VIRTUAL, &value, nullptr);
  }
};

bool reserve() {
  if (stacks) return true;
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* at = mmap(nullptr, STACK * THREADS, PROT_READ | PROT_WRITE, flags, -1, 0);
  void* shared = mmap(nullptr, SHARED + PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (at == MAP_FAILED || shared == MAP_FAILED) return false;
  mprotect((char*)shared + SHARED, PAGE, PROT_NONE);
  ftrace_dynamic_shared = (char*)shared + SHARED;
  stacks = (char*)at;
  return true;
}

void run_blocks(char* shared, size_t shared_size, size_t dynamic) {
  const Index g = ftrace_gridDim;
  const u64 blocks = (u64)g.x * g.y * g.z;
  for (u64 i = 0; i < blocks; ++i) {
    const u64 b = launch.reversed ? blocks - 1 - i : i;
    ftrace_blockIdx = {(unsigned)(b % g.x), (unsigned)(b / g.x % g.y), (unsigned)(b / g.x / g.y)};
    memset(shared, 0xff, shared_size);
    memset(ftrace_dynamic_shared, 0xff, dynamic);
    run_block();
  }
}

}  // namespace

// --- what kernels call

// The running fibre's thread has returned, if it had one: this fibre is for the next new thread.
EXPORT void ftrace_next() {
  Fibre* self = running;
  if (current >= 0) {
    threads[current].done = true;
    ++finished;
    current = -1;
    const int next = pick();
    if (next >= 0 && !threads[next].fibre) {
      pending = next;
    } else {
      idle[idle_count++] = self;
      go_on(fibre_of(next));
    }
  }
  threads[pending].fibre = self;
  enter(pending);
}

EXPORT int ftrace_barrier_count(int predicate, int line) {
  Thread& me = threads[current];
  me.waits = true;
  me.what = BARRIER;
  me.line = line;
  me.mask = 0;
  me.value = predicate != 0;
  if (++at_barrier == launch.threads) {
    u64 sum = 0;
    for (int t = 0; t < launch.threads; ++t) {
      if (threads[t].line != line) fail_waiting("barrier divergence:");
      sum += threads[t].value;
    }
    for (int t = 0; t < launch.threads; ++t) {
      threads[t].result = sum;
      make_ready(t);
    }
    at_barrier = 0;
  }
  wait();
  return (int)me.result;
}

EXPORT void ftrace_barrier(int line) { ftrace_barrier_count(0, line); }

EXPORT u64 ftrace_collective(const char* what, unsigned mask, u64 value, int source, int line) {
  const int warp = current / WARP * WARP, lane = current % WARP;
  Thread& me = threads[current];
  me = {me.index, me.fibre, false, true, what, line, source, mask, value, 0};
  if (!(mask >> lane & 1)) fail_waiting("shuffle-mask mismatch: a lane is not in its own mask:");
  if (warp + 31 - __builtin_clz(mask) >= launch.threads)
    fail_waiting("shuffle-mask mismatch: the mask names lanes that the block has not:");
  arrived[warp / WARP] |= 1u << lane;
  bool complete = !(mask & ~arrived[warp / WARP]);
  u64 votes = 0;
  for (unsigned rest = complete ? mask : 0; rest; rest &= rest - 1) {
    const int k = __builtin_ctz(rest);
    Thread& other = threads[warp + k];
    complete &= other.mask == mask && other.line == line && !strcmp(other.what, what);
    votes |= (u64)(other.value != 0) << k;
  }
  if (!complete) {
    wait();
    return me.result;
  }
  arrived[warp / WARP] &= ~mask;
  for (unsigned rest = mask; rest; rest &= rest - 1) {
    Thread& other = threads[warp + __builtin_ctz(rest)];
    if (other.source >= 0 && !(mask >> other.source & 1)) {
      begin_message();
      say("shuffle-mask mismatch: lane %d reads lane %d at %s (line %d), which mask 0x%08x lacks.",
          __builtin_ctz(rest), other.source, what, line, mask);
      end();
    }
    other.result = other.source < 0 ? votes : threads[warp + other.source].value;
  }
  for (unsigned rest = mask; rest; rest &= rest - 1) make_ready(warp + __builtin_ctz(rest));
  wait();
  return me.result;
}

EXPORT void ftrace_trap(int line) {
  begin_message();
  say("__trap() at line %d.", line);
  end();
}

// --- undefined behaviour: handlers of -fsanitize, which are given the place first

struct Place { const char* file; unsigned line, column; };
struct Mismatch { Place place; const void* type; unsigned char log_alignment, kind; };

[[noreturn]] static void undefined(const Place* place, const char* what) {
  begin_message();
  say("line %u, column %u: %s.", place->line, place->column, what);
  end();
}
EXPORT void __ubsan_handle_type_mismatch_v1(Mismatch* at, uintptr_t address) {
  const u64 alignment = 1ull << at->log_alignment;
  begin_message();
  say("line %u, column %u: address 0x%llx is not a multiple of %llu.", at->place.line,
      at->place.column, (u64)address, alignment);
  end();
}
#define UNDEFINED(name, what) \
  EXPORT void __ubsan_handle_##name(Place* at) { undefined(at, what); }
UNDEFINED(float_cast_overflow, "a float does not fit into the integer it is cast to")
UNDEFINED(add_overflow, "a signed sum overflows")
UNDEFINED(sub_overflow, "a signed difference overflows")
UNDEFINED(mul_overflow, "a signed product overflows")
UNDEFINED(negate_overflow, "a negated number overflows")
UNDEFINED(divrem_overflow, "an integer is divided by zero, or the quotient overflows")
UNDEFINED(shift_out_of_bounds, "a shift by the width or more, or by a negative number")
UNDEFINED(out_of_bounds, "an index is out of the bounds of its array")
UNDEFINED(builtin_unreachable, "code that cannot be reached is reached")
UNDEFINED(missing_return, "a function ends without its result")

// --- what Python calls

EXPORT const char* ftrace_launch(
    const char* name, void (*run)(const void*), const void* words, const unsigned* dims,
    char* const* shared_ends, size_t dynamic, int reversed, int seconds) {
  if (!reserve()) return "The fibres' stacks could not be reserved.";
  ftrace_gridDim = {dims[0], dims[1], dims[2]};
  const Index b = ftrace_blockDim = {dims[3], dims[4], dims[5]};
  launch = {name, run, words, (int)(b.x * b.y * b.z), reversed != 0};
  for (int t = 0; t < launch.threads; ++t)
    threads[t].index = {t % b.x, t / b.x % b.y, t / b.x / b.y};
  char* const top = ftrace_dynamic_shared;
  ftrace_dynamic_shared = top - (dynamic + 15) / 16 * 16;
  volatile bool failed = true;
  {
    Guarded guarded(seconds);
    if (!sigsetjmp(escape, 1)) {
      run_blocks(shared_ends[0], (size_t)(shared_ends[1] - shared_ends[0]), dynamic);
      failed = false;
    }
  }
  ftrace_dynamic_shared = top;
  reset_fibres();
  return failed ? message : nullptr;
}

EXPORT const char* ftrace_copy(char* target, const char* source, size_t size, int seconds) {
  launch.name = "copy";
  ftrace_blockIdx = ftrace_threadIdx = {0, 0, 0};
  Guarded guarded(seconds);
  if (sigsetjmp(escape, 1)) return message;
  memmove(target, source, size);
  return nullptr;
}
