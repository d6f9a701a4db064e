"""NumPy's constants, dtypes and helpers, offered under ftrace.numpy as they are."""

from numpy import (
    array2string as array2string,
)
from numpy import (
    array_repr as array_repr,
)
from numpy import (
    array_str as array_str,
)
from numpy import (
    bartlett as bartlett,
)
from numpy import (
    blackman as blackman,
)
from numpy import (
    bool as bool,
)
from numpy import (
    bool_ as bool_,
)
from numpy import (
    broadcast_shapes as broadcast_shapes,
)
from numpy import (
    byte as byte,
)
from numpy import (
    bytes_ as bytes_,
)
from numpy import (
    c_ as c_,
)
from numpy import (
    can_cast as can_cast,
)
from numpy import (
    cdouble as cdouble,
)
from numpy import (
    character as character,
)
from numpy import (
    common_type as common_type,
)
from numpy import (
    complex64 as complex64,
)
from numpy import (
    complex128 as complex128,
)
from numpy import (
    complexfloating as complexfloating,
)
from numpy import (
    csingle as csingle,
)
from numpy import (
    datetime64 as datetime64,
)
from numpy import (
    diag_indices as diag_indices,
)
from numpy import (
    diag_indices_from as diag_indices_from,
)
from numpy import (
    double as double,
)
from numpy import (
    dtype as dtype,
)
from numpy import (
    e as e,
)
from numpy import (
    errstate as errstate,
)
from numpy import (
    euler_gamma as euler_gamma,
)
from numpy import (
    finfo as finfo,
)
from numpy import (
    flexible as flexible,
)
from numpy import (
    float16 as float16,
)
from numpy import (
    float32 as float32,
)
from numpy import (
    float64 as float64,
)
from numpy import (
    floating as floating,
)
from numpy import (
    from_dlpack as from_dlpack,
)
from numpy import (
    frombuffer as frombuffer,
)
from numpy import (
    fromiter as fromiter,
)
from numpy import (
    frompyfunc as frompyfunc,
)
from numpy import (
    fromstring as fromstring,
)
from numpy import (
    generic as generic,
)
from numpy import (
    get_printoptions as get_printoptions,
)
from numpy import (
    geterr as geterr,
)
from numpy import (
    half as half,
)
from numpy import (
    hamming as hamming,
)
from numpy import (
    hanning as hanning,
)
from numpy import (
    iinfo as iinfo,
)
from numpy import (
    index_exp as index_exp,
)
from numpy import (
    inexact as inexact,
)
from numpy import (
    inf as inf,
)
from numpy import (
    int8 as int8,
)
from numpy import (
    int16 as int16,
)
from numpy import (
    int32 as int32,
)
from numpy import (
    int64 as int64,
)
from numpy import (
    int_ as int_,
)
from numpy import (
    intc as intc,
)
from numpy import (
    integer as integer,
)
from numpy import (
    intp as intp,
)
from numpy import (
    isdtype as isdtype,
)
from numpy import (
    isscalar as isscalar,
)
from numpy import (
    issubdtype as issubdtype,
)
from numpy import (
    iterable as iterable,
)
from numpy import (
    ix_ as ix_,
)
from numpy import (
    kaiser as kaiser,
)
from numpy import (
    little_endian as little_endian,
)
from numpy import (
    load as load,
)
from numpy import (
    loadtxt as loadtxt,
)
from numpy import (
    long as long,
)
from numpy import (
    longlong as longlong,
)
from numpy import (
    mask_indices as mask_indices,
)
from numpy import (
    may_share_memory as may_share_memory,
)
from numpy import (
    mgrid as mgrid,
)
from numpy import (
    min_scalar_type as min_scalar_type,
)
from numpy import (
    mintypecode as mintypecode,
)
from numpy import (
    nan as nan,
)
from numpy import (
    ndarray as ndarray,
)
from numpy import (
    ndenumerate as ndenumerate,
)
from numpy import (
    ndindex as ndindex,
)
from numpy import (
    newaxis as newaxis,
)
from numpy import (
    number as number,
)
from numpy import (
    object_ as object_,
)
from numpy import (
    ogrid as ogrid,
)
from numpy import (
    packbits as packbits,
)
from numpy import (
    pi as pi,
)
from numpy import (
    printoptions as printoptions,
)
from numpy import (
    promote_types as promote_types,
)
from numpy import (
    r_ as r_,
)
from numpy import (
    result_type as result_type,
)
from numpy import (
    s_ as s_,
)
from numpy import (
    save as save,
)
from numpy import (
    savetxt as savetxt,
)
from numpy import (
    savez as savez,
)
from numpy import (
    set_printoptions as set_printoptions,
)
from numpy import (
    seterr as seterr,
)
from numpy import (
    shares_memory as shares_memory,
)
from numpy import (
    short as short,
)
from numpy import (
    signedinteger as signedinteger,
)
from numpy import (
    single as single,
)
from numpy import (
    str_ as str_,
)
from numpy import (
    timedelta64 as timedelta64,
)
from numpy import (
    tril_indices as tril_indices,
)
from numpy import (
    tril_indices_from as tril_indices_from,
)
from numpy import (
    triu_indices as triu_indices,
)
from numpy import (
    triu_indices_from as triu_indices_from,
)
from numpy import (
    ubyte as ubyte,
)
from numpy import (
    ufunc as ufunc,
)
from numpy import (
    uint as uint,
)
from numpy import (
    uint8 as uint8,
)
from numpy import (
    uint16 as uint16,
)
from numpy import (
    uint32 as uint32,
)
from numpy import (
    uint64 as uint64,
)
from numpy import (
    uintc as uintc,
)
from numpy import (
    uintp as uintp,
)
from numpy import (
    ulong as ulong,
)
from numpy import (
    ulonglong as ulonglong,
)
from numpy import (
    unpackbits as unpackbits,
)
from numpy import (
    unsignedinteger as unsignedinteger,
)
from numpy import (
    ushort as ushort,
)
from numpy import (
    void as void,
)
