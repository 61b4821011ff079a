"""Which of torch's functions, by name, move values, keep them, or have no part in the graph."""

from __future__ import annotations

#: the gradient of moving values is the relevance of moving values
MOVES = frozenset(
    """
    view reshape view_as reshape_as transpose permute t T mT swapaxes swapdims movedim
    moveaxis flatten unflatten squeeze unsqueeze expand expand_as broadcast_to
    broadcast_tensors repeat tile repeat_interleave cat concat concatenate stack hstack
    vstack dstack split split_with_sizes tensor_split chunk unbind __getitem__ __setitem__
    select narrow index_select gather take_along_dim masked_select flip roll rot90 pad
    contiguous clone copy_ to type float double half bfloat16 type_as cpu cuda index_put
    index_copy index_fill scatter slice_scatter select_scatter diagonal_scatter masked_scatter
    tril triu diagonal unfold pixel_shuffle
    pixel_unshuffle max_pool1d max_pool2d max amax topk sort as_strided detach data squeeze_
    unsqueeze_ transpose_ alpha_dropout __iter__ unsafe_chunk unsafe_split
    max_pool2d_with_indices H mH adjoint ravel real positive __pos__ im2col
    atleast_1d atleast_2d atleast_3d block_diag resolve_conj resolve_neg max_pool3d
    maximum minimum fmax fmin adaptive_max_pool1d adaptive_max_pool2d amin min aminmax
    column_stack row_stack _unsafe_view slice fliplr flipud
    """.split()
)

#: not part of the graph
INERT = frozenset(
    """
    shape size dim ndim ndimension numel nelement dtype device layout is_cuda is_leaf
    requires_grad grad_fn grad stride is_contiguous storage_offset data_ptr
    is_floating_point is_complex __len__ __repr__ __format__ zeros_like ones_like empty_like
    full_like rand_like randn_like new_zeros new_ones new_empty new_full new_tensor argmax
    argmin eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ isnan isinf isfinite
    any all nonzero element_size get_device is_sparse is_quantized is_meta is_nested is_mps
    is_xpu names _version register_hook has_names is_inference is_pinned __hash__
    is_same_size equal allclose broadcast_shapes retain_grad _is_view storage
    untyped_storage __bool__ finfo result_type can_cast item __contains__ tolist __float__ __int__
    __index__ _nested_tensor_from_mask_left_aligned
    """.split()
)

#: of those, what makes a Python number of a value: autograd does not see where it goes
NUMBERS = frozenset("item tolist __float__ __int__ __index__".split())

#: activation functions: one value in, the same shape out, element by element
POINTWISE = frozenset(
    """
    gelu relu relu6 leaky_relu elu selu celu silu mish hardswish hardsigmoid hardtanh softplus
    softsign tanh sigmoid logsigmoid exp log log1p expm1 sqrt rsqrt pow __pow__ square abs erf sin
    cos reciprocal clamp clamp_min clamp_max prelu nan_to_num exp2 sinc softshrink hardshrink
    threshold _threshold log_sigmoid rrelu __abs__ float_power absolute __rpow__
    """.split()
)

#: numbers that tell a value's size or spread; a norm that is spelled out divides by one
STATISTICS = frozenset(
    "norm linalg_norm linalg_vector_norm vector_norm var std var_mean std_mean".split()
)

#: fixed linear maps, for which the generic rule is Eq. 6
FIXED = frozenset(
    """
    avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    interpolate upsample grid_sample fold unfold
    """.split()
)

#: an activation may lend these its shape, type or device; its values take no part
LIKE = frozenset("expand_as view_as reshape_as type_as broadcast_to".split())

#: autograd's nodes of operations that only move values, or add a constant
MOVING_NODES = frozenset(
    """
    AccumulateGrad Alias AsStrided Cat Clone Contiguous CopySlices Diagonal Expand Flip
    Gather Index IndexCopy IndexPut IndexSelect MaskedFill MaskedScatter MaskedSelect
    MaxPool2DWithIndices Narrow Permute Repeat Reshape ReshapeAlias Roll Rot90 Scatter
    Select Slice Sort Split SplitWithSizes Squeeze Stack T TakeAlongDim ToCopy Topk
    Transpose Tril Triu Unbind Unfold UnsafeSplit UnsafeView Unsqueeze View ViewAs Where
    ConstantPadNd Copy Max Amax Min Amin Aminmax Add Sub Im2Col PixelShuffle PixelUnshuffle Detach
    Maximum Minimum Fmax Fmin CopyBackwards BlockDiag IndexFill SliceScatter SelectScatter
    DiagonalScatter ReflectionPad1D ReflectionPad2D ReflectionPad3D ReplicationPad1D
    ReplicationPad2D ReplicationPad3D MaxPool3DWithIndices AdaptiveMaxPool2D AdaptiveMaxPool3D
    """.split()
)

#: moves that keep the order of the elements
RESHAPES = frozenset(
    "view reshape flatten unflatten ravel view_as reshape_as contiguous clone".split()
)

#: Python's operators that write into their left side, and what they compute
IN_PLACE: dict[str, str | None] = {
    "__iadd__": "add", "__isub__": "sub", "__imul__": "mul", "__itruediv__": "div",
    "__idiv__": "div", "__ipow__": "pow", "__imatmul__": "matmul", "__setitem__": None,
}  # fmt: skip
#: written by autograd itself, which follows them into views
NATIVE = frozenset("copy_ index_put_ requires_grad_ detach_ fill_ zero_ resize_ set_".split())
#: these change how a tensor is laid out, in place
TURNS = frozenset("unsqueeze_ squeeze_ transpose_ t_ swapaxes_ swapdims_".split())
#: these draw random numbers, and cannot be run again
RANDOM = frozenset({"dropout", "rrelu"})
