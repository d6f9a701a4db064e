"""What must survive: threads, forks, signals, interrupts, memory."""
