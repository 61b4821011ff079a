"""Tiny configurations of every family, and inputs that look like the ones people use.

`tiny_config` shrinks a configuration by the names of its fields. Two tables hold what the names
do not tell: `SIZES` maps field names to small values, `FAMILIES` adds what one family needs.
`Inputs` makes a batch of two different samples for a model.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import inspect
import re
import zlib
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VOCABULARY = 99
WORDS = range(5, 88)
SIZES = {
    r"((en|de)coder_|text_|vision_|fusion_|out(put)?_|projector_|image_text_)?hidden_size(_global)?"
    r"|(decoder_)?d_model|((en|de)coder_)?embed_dim|encoder_hidden_dim|n_embe?d|((model|emb)_)?dim"
    r"|embedding_size|projection_(dim|size)|word_embed_proj_dim|pooler_output_size"
    r"|vision_output_dim": 32,
    r"((en|de)coder_)?(num_)?((hidden|encoder|decoder)_)?layers|n_layers?|(resampler_)?depth"
    r"|(speech_encoder|t2u_encoder|t2u_decoder|[lxr])_layers|((en|de)coder_)?num_(key_value|kv)_heads"
    r"|num_experts_per_tok|moe_(topk|k)|top_k_experts": 2,
    r"((en|de)coder_)?(num_)?(attention_|attn_)?heads|n_heads?|(speech_encoder|t2u_encoder"
    r"|t2u_decoder)_attention_heads|resampler_heads|num_(local_)?experts|n_routed_experts"
    r"|moe_num_experts": 4,
    r"((en|de)coder_|speech_encoder_|moe_|shared_expert_|shared_)?intermediate_size"
    r"|((t2u_)?(en|de)coder_)?ffn_dim|d_ff|n_inner|mlp_dim|(feed_forward|(expert_)?ffn)_hidden_size"
    r"|d_inner|dim_feedforward|encoder_feedforward_dim": 48,
    r"((qk_nope|qk_rope|v|linear_key|linear_value|attention)_)?head_dim|d_kv|d_head|kv_channels"
    r"|(resampler_)?dim_head|(q|kv)_lora_rank|patch_size": 8,
    r"n_group|topk_group|(n|num|moe_num)_shared_experts|first_k_dense_replace": 1,
    r"max_(position_embeddings|source_positions|target_positions|seq_len|sequence_length)"
    r"|n_positions|n_ctx": 128,
    r"image_size": 32,
    r"vocab_size": VOCABULARY,
    r"num_frames|sliding_window": 4,
}
DERIVED = """n_inner head_dim intermediate_size q_lora_rank num_kv_heads encoder_hidden_size
    output_hidden_size sliding_window""".split()
SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 2}
LENGTHS = {"canine": 32, "reformer": 16, "nystromformer": 12, "longformer": 12, "mra": 32}
LENGTHS |= {"yoso": 12, "led": 12}
# A row of padding that sees padding alone makes the gradients of these families NaN.
UNPADDED = ("longformer", "led")
PARTS = "vision_config image_config backbone_config encoder_config audio_config text_config".split()
TABLE = """
resnet-backbone: model_type='resnet' embedding_size=8 hidden_sizes=[8,16,24,32] depths=[1,1,1,1]
  layer_type='basic' out_features=['stage2','stage3','stage4']
swin-backbone: model_type='swin' image_size=64 patch_size=2 embed_dim=8 depths=[1,1,1,1]
  num_heads=[2,2,4,4] window_size=2 out_features=['stage1','stage2','stage3','stage4']
detr conditional_detr dab-detr table-transformer: num_queries=7 use_timm_backbone=False
  backbone_config=@resnet-backbone
swin donut-swin maskformer-swin: patch_size=2 embed_dim=16 depths=[1,2] num_heads=[2,4]
  window_size=2
pyramid: hidden_sizes=[8,16,32,32] depths=[1,1,1,2] num_attention_heads=[1,2,4,4]
rt-backbone: resnet-backbone model_type='rt_detr_resnet'
rt_detr rt_detr_v2: backbone_config=@rt-backbone num_queries=7 num_denoising=0 hidden_expansion=0.5
  encoder_in_channels=[16,24,32] decoder_in_channels=[32,32,32]
three-stages: swin-backbone out_features=['stage2','stage3','stage4']
grounding-dino mm-grounding-dino: backbone_config=@three-stages num_queries=7 max_text_len=16
  num_feature_levels=4
tdnn: tdnn_dim=(16,16) tdnn_kernel=(3,3) tdnn_dilation=(1,1) xvector_output_dim=16
  classifier_proj_size=16
wav2vec2 hubert speecht5 unispeech unispeech-sat wav2vec2-conformer wavlm: tdnn conv_dim=(16,16,16)
  conv_kernel=(8,3,3) conv_stride=(4,2,2) num_conv_pos_embeddings=16 num_conv_pos_embedding_groups=2
  mask_time_length=2
mask2former: backbone_config=@swin-backbone num_queries=7 hidden_dim=32 mask_feature_size=32
  feature_size=32
hybrid: layer_types=['linear_attention','full_attention']
lfm2 lfm2_moe: layer_types=['conv','full_attention']
mamba-part: mamba_n_heads=4 mamba_d_head=16 mamba_chunk_size=8 mamba_d_state=8
zamba-part: num_hidden_layers=4 layers_block_type=['mamba','hybrid','mamba','hybrid']
  use_mamba_kernels=False
big_bird bigbird_pegasus: block_size=4 num_random_blocks=1
modernbert modernbert-decoder: local_attention=8 global_attn_every_n_layers=2
layoutlm: max_2d_position_embeddings=64
rope: rope_type='default' rope_theta=1e4 mrope_section=[2,1,1]
align: projection_dim=64
align_vision_model: width_coefficient=0.2 depth_coefficient=0.2 hidden_dim=64
audio-spectrogram-transformer: max_length=64 num_mel_bins=16 frequency_stride=8 time_stride=8
bamba: mamba-part attn_layer_indices=[1]
blip-2: image_token_index=95 num_query_tokens=4
blip_2_qformer: use_qformer_text_input=True
bridgetower bros: hidden_size=64
bridgetower_vision_model bridgetower_text_model: hidden_size=64
canine: downsampling_rate=4 local_transformer_stride=16 num_hash_buckets=40 upsampling_kernel_size=4
clap_audio_model: num_mel_bins=32 spec_size=64 window_size=2 depths=[1,1,1,1] patch_size=4
  num_attention_heads=[1,1,2,2] patch_embeds_hidden_size=4
codegen gptj: rotary_dim=4
ropes: full_attention=@rope sliding_attention=@rope
cohere_compass_text: rope_parameters=@ropes
convnext convnextv2: image_size=64 patch_size=4 hidden_sizes=[8,16,24,32] depths=[1,1,1,1]
cpmant: prompt_types=4 prompt_length=4 segment_types=4
ctrl: dff=48
cvt: embed_dim=[16,24,32] num_heads=[2,2,4] depth=[1,2,3]
d_fine deimv2 pp_doclayout_v3 pp_doclayout_v4: num_denoising=0 decoder_in_channels=[32,32,32]
  num_queries=7
data2vec-audio: wav2vec2 conv_pos_kernel_size=3
dbrx: attn_config={'rope_theta':1e4,'kv_n_heads':2,'clip_qkv':8}
deberta: relative_attention=True pos_att_type=['c2p','p2c'] position_biased_input=False
deberta-v2: relative_attention=True pos_att_type=['p2c','c2p'] position_biased_input=False
  position_buckets=4 share_att_key=True norm_rel_ebd='layer_norm'
deformable_detr: detr encoder_n_points=2 decoder_n_points=2 num_feature_levels=3
dinov3_vit: num_register_tokens=2
distilbert: hidden_dim=48
dpt: num_hidden_layers=4 backbone_out_indices=[0,1,2,3] neck_hidden_sizes=[8,16,24,32]
  fusion_hidden_size=16 is_hybrid=False backbone_config=None
eomt eomt_dinov3 videomt: num_blocks=1 num_queries=5 num_upscale_blocks=1 num_register_tokens=2
esmc: num_key_value_heads=4
falcon_h1: mamba-part mamba_d_ssm=64
focalnet: patch_size=4 embed_dim=8 depths=[1,1] hidden_sizes=[8,16] focal_levels=[2,2]
  focal_windows=[3,3]
fsmt: src_vocab_size=99 tgt_vocab_size=99 langs=['en','de']
funnel: block_sizes=[1,1] num_decoder_layers=1
gemma3 shieldgemma2: mm_tokens_per_image=4 yes_token_index=7 no_token_index=11
gemma3n_text: layer_types=['sliding_attention','full_attention'] num_kv_shared_layers=0
  hidden_size_per_layer_input=8 vocab_size_per_layer_input=99 laurel_rank=4
  activation_sparsity_pattern=[0.0,0.0]
gemma4_text: vocab_size_per_layer_input=99 hidden_size_per_layer_input=8
gpt_neo: attention_types=[[['global','local'],1]] window_size=4
granitemoehybrid: mamba-part layer_types=['mamba','attention']
hiera: image_size=[64,64] patch_size=[7,7] embed_dim=16 depths=[1,1,2,1] num_heads=[1,2,4,8]
  masked_unit_size=[8,8]
hunyuan_v1_dense hunyuan_v1_moe hyperclovax ministral: head_dim=8
jamba: attn_layer_period=2 attn_layer_offset=1 expert_layer_period=2 expert_layer_offset=1
  use_mamba_kernels=False
kosmos-2: latent_query_num=4
layoutlmv3: layoutlm input_size=32 coordinate_size=6 shape_size=4
led: attention_window=[4,4] max_encoder_position_embeddings=128 max_decoder_position_embeddings=128
levit: image_size=64 patch_size=16 hidden_sizes=[16,32,48] num_attention_heads=[2,4,6]
  depths=[1,1,2] key_dim=[8,8,8]
lilt: layoutlm hidden_size=48
longformer: attention_window=[4,4]
longt5: local_radius=3
luke: entity_vocab_size=20 entity_emb_size=16
lw_detr_vit: num_hidden_layers=4 out_indices=[1,2,3,4] window_block_indices=[0,2] num_windows=4
lw_detr: projector_scale_factors=[1.0] num_queries=7 group_detr=1
lxmert: num_qa_labels=3 num_object_labels=3 num_attr_labels=3 visual_feat_dim=16
mamba2: num_heads=8 head_dim=8 expand=2
marian: decoder_vocab_size=99
markuplm: max_depth=4 max_xpath_tag_unit_embeddings=20 max_xpath_subs_unit_embeddings=20
  tag_pad_id=10 subs_pad_id=10
detr-decoder: detr model_type='detr' d_model=32 encoder_layers=1 decoder_layers=2
  encoder_attention_heads=4 decoder_attention_heads=4 encoder_ffn_dim=48 decoder_ffn_dim=48
maskformer: backbone_config=@swin-backbone decoder_config=@detr-decoder fpn_feature_size=32
  mask_feature_size=32
minimax: hybrid block_size=4
mllama_text_model: cross_attention_layers=[1]
mllama_vision_model: num_global_layers=1 max_num_tiles=1 supported_aspect_ratios=[[1,1]]
  intermediate_layers_indices=[1] vision_output_dim=64
mobilebert: embedding_size=32 intra_bottleneck_size=32 num_feedforward_networks=2
mobilevit: image_size=64 patch_size=2 hidden_sizes=[16,24,32] neck_hidden_sizes=[8,8,16,16,16,16,16]
mobilevitv2: image_size=64 patch_size=2 base_attn_unit_dims=[16,16,32]
moonshine: encoder_num_key_value_heads=4 decoder_num_key_value_heads=4
moonshine_streaming: num_key_value_heads=4
musicgen_decoder musicgen_melody_decoder: num_codebooks=1
neomme: head_dim=16
nystromformer: num_landmarks=4 segment_means_seq_len=12 max_position_embeddings=12
oneformer: mask2former conv_dim=32 mask_dim=32 text_encoder_width=32 text_encoder_context_length=7
  text_encoder_num_layers=1 text_encoder_vocab_size=99 text_encoder_n_ctx=4 task_seq_len=7
  is_training=False
patchtst: num_input_channels=2 context_length=16 patch_length=4 patch_stride=4 num_targets=3
  use_cls_token=True
perceiver: num_latents=7 d_latents=32 num_self_attends_per_block=2 num_self_attention_heads=4
  num_cross_attention_heads=4 image_size=16 max_position_embeddings=32
poolformer: hidden_sizes=[8,16,24,32] depths=[1,1,1,1]
pp_doclayout_v2: d_fine class_thresholds=[0.5,0.5,0.5] class_order=[0,1,2]
prophetnet: num_encoder_layers=2 num_decoder_layers=2 num_encoder_attention_heads=4
  num_decoder_attention_heads=4
pvt: pyramid image_size=64 patch_sizes=[4,2,2,2]
pvt_v2: pyramid image_size=64
qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp_text: hybrid
qwen2_vl_text qwen2_5_vl_text: rope_parameters=@rope
reformer: attn_layers=['local','lsh'] axial_pos_shape=[4,8] axial_pos_embds_dim=[16,16]
  feed_forward_size=48 attention_head_size=8 local_attn_chunk_length=8 lsh_attn_chunk_length=8
  num_buckets=2 max_position_embeddings=32 hash_seed=0
rembert: input_embedding_size=16 output_embedding_size=32
roc_bert: pronunciation_embed_dim=16 pronunciation_vocab_size=99 shape_embed_dim=16
  shape_vocab_size=99
sam_vision_model: window_size=2 global_attn_indexes=[1] output_channels=16
segformer: pyramid decoder_hidden_size=16
sew sew-d: wav2vec2 squeeze_factor=2
speech_to_text: max_source_positions=64 input_feat_per_channel=16 conv_channels=16
squeezebert: q_groups=2 k_groups=2 v_groups=2 post_attention_groups=1 intermediate_groups=2
  output_groups=2
swiftformer: image_size=64 embed_dims=[8,16,24,32] depths=[1,1,1,1]
swinv2: swin pretrained_window_sizes=[0,0]
t5: decoder_start_token_id=0
timesformer: num_frames=3
upernet: backbone_config=@swin-backbone hidden_size=16 auxiliary_channels=8 auxiliary_in_channels=32
vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_encoder: num_filters=4 depths=[1,1,1]
  downsampling_ratios=[2,2]
videomae: tubelet_size=2
vilt: max_image_length=-1
visual_bert: visual_embedding_dim=16
vivit: tubelet_size=[2,8,8]
vjepa2: crop_size=32 frames_per_clip=4 tubelet_size=2 num_pooler_layers=1 mlp_ratio=1.5
  pred_hidden_size=16 pred_num_attention_heads=2 pred_num_hidden_layers=1
wav2vec2-bert: tdnn feature_projection_input_dim=16
whisper: max_source_positions=30 num_mel_bins=16
xclip: prompt_num_attention_heads=4
xclip_vision_model: mit_hidden_size=32 mit_intermediate_size=48 mit_num_attention_heads=4
xmod: languages=['en_XX'] default_language='en_XX'
yolos: num_detection_tokens=5
zamba: zamba-part attention_hidden_size=64 attention_head_dim=16 attn_layer_offset=1
  attn_layer_period=2 n_mamba_heads=2
zamba2: zamba-part mamba_headdim=16 n_mamba_heads=4 mamba_d_state=8 chunk_size=8
zaya: num_experts_per_tok=1
"""


def parse(table: str) -> list[tuple[str, dict[str, Any]]]:
    """Read `left: field=value line-to-include field=@line-as-a-dictionary`, one entry a line."""
    found: list[tuple[str, dict[str, Any]]] = []
    known: dict[str, dict[str, Any]] = {}
    for line in re.sub(r"\n +", " ", table.strip()).splitlines():
        left, _, words = line.partition(": ")
        values: dict[str, Any] = {}
        for word in words.split():
            field, equals, value = word.partition("=")
            if not equals:
                values |= known[field]
            else:
                values[field] = known[value[1:]] if value[0] == "@" else ast.literal_eval(value)
        found.append((left, values))
        known |= dict.fromkeys(left.split(), values)
    return found


FAMILIES = {name: values for left, values in parse(TABLE) for name in left.split()}


def small(name: str, value: Any) -> Any:
    """The small value of a field, or its default."""
    size = next((size for pattern, size in SIZES.items() if re.fullmatch(pattern, name)), None)
    if name == "pad_token_id":
        return 0
    if re.search(r"_token_(id|index)$", name):
        if isinstance(value, list):
            return [2]
        if isinstance(value, int) and value >= VOCABULARY:
            return SPECIAL.get(name, 89 + zlib.crc32(name.encode()) % 10)
        return value
    if size is None or isinstance(value, (bool, str, float, dict)):
        return value
    if value is None:
        return None if name in DERIVED else size
    return type(value)([size] * len(value)) if isinstance(value, (list, tuple)) else size


def tiny_fields(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a configuration and of its parts, shrunk where nothing is given."""
    defaults = {
        f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
        for f in dataclasses.fields(cls)
    }
    found = {}
    for name, value in defaults.items():
        if name not in given and (new := small(name, value)) is not value:
            found[name] = new
    if {"kv_lora_rank", "num_key_value_heads"} <= defaults.keys():
        found["num_key_value_heads"] = 4
    for name, spec in cls.sub_configs_defaults.items():
        optional = spec.optional and name not in ("text_config", "vision_config")
        if name in given or name not in defaults or (optional and defaults[name] is None):
            continue
        part = spec.config_class
        if not (isinstance(part, type) and issubclass(part, PreTrainedConfig)):
            part = spec.get_config_class(spec.model_type)
        kept = {k: v for k, v in (spec.init_kwargs or {}).items() if small(k, v) is v}
        own = copy.deepcopy(FAMILIES.get(part.model_type, {}))
        found[name] = part(**kept | tiny_fields(part, own) | own)
    return found


def tiny_config(family: str, given: dict[str, Any]) -> PreTrainedConfig:
    """The smallest sensible configuration of a family."""
    cls = CONFIG_MAPPING[family]
    own = copy.deepcopy(FAMILIES.get(family, {})) | given
    config = cls(**tiny_fields(cls, own) | own)
    if getattr(config, "pad_token_id", 0) is None:
        config.pad_token_id = 0
    return config


class Inputs:
    """Two natural samples for a model."""

    def __init__(self, kind: str, model: nn.Module, options: dict[str, Any]) -> None:
        """Look at what the model's forward takes."""
        self.kind, self.options, self.config = kind, options, model.config
        self.family: str = model.config.model_type
        self.parts = [self.config, *(getattr(self.config, n, None) for n in PARTS)]
        self.text_config = getattr(self.config, "text_config", None) or self.config
        self.names = inspect.signature(model.forward).parameters
        self.generator = torch.Generator().manual_seed(5)

    def make(self) -> dict[str, Any]:
        """The keyword arguments of the forward."""
        choices = self.options.get("choices", 2 if self.kind == "choices" else 0)
        return self.choices(choices) if choices else getattr(self, self.kind)()

    def normal(self, *shape: int) -> Tensor:
        """Random numbers around zero."""
        return torch.randn(shape, generator=self.generator)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Random integers."""
        return torch.randint(low, high, shape, generator=self.generator)

    def find(self, *names: str, default: Any = None) -> Any:
        """The first of these fields that the configuration or one of its parts sets."""
        found = (getattr(part, name, None) for part in self.parts if part for name in names)
        return next((value for value in found if value is not None), default)

    def side(self, *names: str, default: int = 0) -> int:
        """The first of these fields, or its first number."""
        value = self.find(*names, default=default)
        return value if isinstance(value, int) else value[0]

    def words(self, batch: int, length: int) -> Tensor:
        """A beginning, words and an end."""
        ids = self.integers(WORDS.start, WORDS.stop, batch, length)
        end = getattr(self.text_config, "eos_token_id", None)
        end = end[0] if isinstance(end, (list, tuple)) else end
        ids[:, -1] = 2 if end is None or end >= VOCABULARY else end
        if self.family != "mra":  # without its CUDA kernel, the first word hears of no other
            ids[:, 0] = 1
        return ids

    def text(self, batch: int = 2) -> dict[str, Any]:
        """Sentences, every second of which is three words shorter and padded."""
        length = self.options.get("length", LENGTHS.get(self.family, 9))
        ids = self.words(batch, length)
        mask = torch.ones_like(ids)
        pad = torch.full((3,), getattr(self.text_config, "pad_token_id", None) or 0)
        for row in range(1, 1 if self.family in UNPADDED else batch, 2):
            short = torch.cat([ids[row, : length - 4], ids[row, -1:]])
            left = self.options.get("left", False)
            ids[row] = torch.cat([pad, short] if left else [short, pad])
            mask[row, slice(3) if left else slice(-3, None)] = 0
        found = {"input_ids": ids, "attention_mask": mask} | self.layout(batch, length)
        open_ended = any(p.kind is p.VAR_KEYWORD for p in self.names.values())
        blind = self.family == "nystromformer" and self.config.num_landmarks != length
        if blind or not ("attention_mask" in self.names or open_ended):
            del found["attention_mask"]
        if self.family == "perceiver":
            found["inputs"] = found.pop("input_ids")
        return found

    def layout(self, batch: int, length: int) -> dict[str, Any]:
        """Where the words stand, and which of them see all others."""
        found: dict[str, Any] = {}
        if "bbox" in self.names:
            corner = self.integers(0, 20, batch, length, 2)
            found["bbox"] = torch.cat([corner, corner + self.integers(1, 20, batch, length, 2)], -1)
        if self.family == "bros":
            found["bbox"] = found["bbox"] / 40
        if self.family == "layoutlmv3":
            found |= self.image(batch)
        if self.family == "tapas":
            found["token_type_ids"] = self.table(batch, length)
        if self.options.get("global_first"):
            found["global_attention_mask"] = torch.eye(1, length, dtype=torch.long).repeat(batch, 1)
        return found

    def table(self, batch: int, length: int) -> Tensor:
        """A question of two words, a header of two columns, then cells, row by row."""
        types = torch.zeros(batch, length, 7, dtype=torch.long)
        cells = torch.arange(length - 2)
        types[:, 2:, 0] = 1
        types[:, 2:, 1] = 1 + cells % 2
        types[:, 2:, 2] = cells // 2
        return types

    def choices(self, count: int) -> dict[str, Any]:
        """Several texts for each sample."""
        found = {k: v.unflatten(0, (2, count)) for k, v in self.text(2 * count).items()}
        if "mc_token_ids" in self.names:
            found["mc_token_ids"] = found["attention_mask"].sum(-1) - 1
        if "visual_embeds" in self.names:
            found["visual_embeds"] = self.normal(2, count, 4, self.config.visual_embedding_dim)
        return found

    def image(self, batch: int = 2) -> dict[str, Any]:
        """Noise of the size that the model was made for."""
        size = self.side("image_size", "input_size", default=64)
        if self.family == "imagegpt":
            return {"input_ids": self.integers(0, VOCABULARY - 2, batch, 16)}
        if self.family == "siglip2":
            return {
                "pixel_values": self.normal(batch, 16, 3 * self.side("patch_size") ** 2),
                "pixel_attention_mask": torch.ones(batch, 16, dtype=torch.long),
                "spatial_shapes": torch.tensor([[4, 4]] * batch),
            }
        channels = getattr(self.config, "num_channels", 3)
        found = {"pixel_values": self.normal(batch, channels or 3, size, size)}
        if "noise" in self.names:
            patches = (size // self.side("patch_size")) ** 2
            found["noise"] = torch.rand(batch, patches, generator=self.generator)
        if self.family == "oneformer":
            found["task_inputs"] = self.integers(1, 80, batch, self.config.task_seq_len)
        return found

    def video(self) -> dict[str, Any]:
        """A few frames of noise."""
        key = "pixel_values_videos" if "pixel_values_videos" in self.names else "pixel_values"
        size = self.side("image_size", "crop_size", default=32)
        frames = self.side("num_frames", "frames_per_clip", default=1)
        return {key: self.normal(2, frames, 3, size, size)}

    def audio(self) -> dict[str, Any]:
        """Waves or spectrograms, whichever the model takes."""
        bins = self.side("num_mel_bins", "input_feat_per_channel", default=80)
        if self.family == "audio-spectrogram-transformer":
            return {"input_values": self.normal(2, self.config.max_length, bins)}
        if self.family == "whisper":
            length = 2 * self.config.max_source_positions
            return {"input_features": self.normal(2, bins, length)}
        if "input_values" in self.names:
            return {"input_values": self.normal(2, 4000 if "moonshine" in self.family else 400)}
        bins = self.side("feature_projection_input_dim", default=bins)
        bins = self.config.d_model if self.family == "pop2piano" else bins
        if self.family == "wav2vec2-bert":
            mask = torch.ones(2, 12, dtype=torch.long)
            mask[1, 9:] = 0
            return {"input_features": self.normal(2, 12, bins), "attention_mask": mask}
        return {"input_features": self.normal(2, 64, bins)}

    def series(self) -> dict[str, Any]:
        """Several channels over time."""
        channels = self.config.num_input_channels
        return {"past_values": self.normal(2, self.config.context_length, channels)}

    def episodes(self) -> dict[str, Any]:
        """Three steps of two agents."""
        return {
            "states": self.normal(2, 3, self.config.state_dim),
            "actions": self.normal(2, 3, self.config.act_dim),
            "rewards": self.normal(2, 3, 1),
            "returns_to_go": self.normal(2, 3, 1),
            "timesteps": torch.arange(3).repeat(2, 1),
            "attention_mask": torch.ones(2, 3, dtype=torch.long),
        }

    def decoder(self) -> dict[str, Any]:
        """The beginning of an answer, where the model has a decoder."""
        if "decoder_input_ids" not in self.names:
            return {}
        ids = self.words(2, self.options.get("decoder_length", 5))
        ids[:, 0] = getattr(self.config, "decoder_start_token_id", None) or 0
        return {"decoder_input_ids": ids}

    def sequences(self) -> dict[str, Any]:
        """A source text and the beginning of its translation."""
        return self.text() | self.decoder()

    def speech(self) -> dict[str, Any]:
        """Speech and the beginning of its transcript; only words where there is no decoder."""
        return self.audio() | self.decoder() if "decoder_input_ids" in self.names else self.text()

    def regions(self) -> dict[str, Any]:
        """A text and the features of an image's regions."""
        count = self.options.get("regions", 6)
        if self.family == "lxmert":
            boxes = torch.rand(2, count, 4, generator=self.generator)
            features = self.normal(2, count, self.config.visual_feat_dim)
            return self.text() | {"visual_feats": features, "visual_pos": boxes}
        return self.text() | {
            "visual_embeds": self.normal(2, count, self.config.visual_embedding_dim),
            "visual_attention_mask": torch.ones(2, count, dtype=torch.long),
        }

    def pair(self) -> dict[str, Any]:
        """Two images with a text each."""
        if self.family in ("lxmert", "visual_bert"):
            return self.regions()
        return self.text() | self.image() | self.decoder()

    def towers(self) -> dict[str, Any]:
        """Two images and the texts that they are compared with."""
        together = self.family in ("vilt", "flava", "bridgetower")
        found = self.text(self.options.get("texts", 2 if together else 3))
        if self.family == "clap":
            return found | {"input_features": self.normal(2, 1, 64, self.side("num_mel_bins"))}
        if self.family in ("xclip", "videoprism"):
            return found | self.video()
        return found | self.image()

    def queries(self) -> dict[str, Any]:
        """Two images and what is looked for in each."""
        return self.text(4 if "owl" in self.family else 2) | self.image()

    def chat(self) -> dict[str, Any]:
        """Texts about an image."""
        found = self.text() | self.image()
        if self.family == "mllama":
            one = torch.ones(2, 1, 1, dtype=torch.long)
            return found | {
                "pixel_values": found["pixel_values"][:, None, None],
                "aspect_ratio_ids": one[:, 0],
                "aspect_ratio_mask": one,
                "cross_attention_mask": one[..., None].repeat(1, found["input_ids"].shape[1], 1, 1),
            }
        if self.family == "kosmos-2":
            places = torch.zeros_like(found["input_ids"])
            places[:, 1 : 1 + self.config.latent_query_num] = 1
            return found | {"image_embeds_position_mask": places}
        token = self.find("image_token_id", "image_token_index")
        return found if token is None else self.among_words(found, token)

    def among_words(self, found: dict[str, Any], token: int) -> dict[str, Any]:
        """The same inputs with an image's tokens after the first word."""
        vision = self.config.vision_config
        count = (self.side("image_size") // self.side("patch_size", default=8)) ** 2
        count = self.find("num_query_tokens", "mm_tokens_per_image", default=count)
        if hasattr(vision, "spatial_merge_size"):
            found["pixel_values"] = self.normal(
                32, 3 * vision.temporal_patch_size * vision.patch_size**2
            )
            found["image_grid_thw"] = torch.tensor([[1, 4, 4]] * 2)
            count = 16 // vision.spatial_merge_size**2
        elif hasattr(self.config, "scale_factor"):
            found["pixel_values"] = found["pixel_values"].unsqueeze(1)
            count //= self.config.scale_factor**2
        elif hasattr(self.config, "downsample_ratio"):
            count = int(count * self.config.downsample_ratio**2)
        places = torch.full((2, count), token)
        for key, fill in (("input_ids", places), ("attention_mask", torch.ones_like(places))):
            found[key] = torch.cat([found[key][:, :1], fill, found[key][:, 1:]], 1)
        seen = (found["input_ids"] == token).long()
        types = {"mm_token_type_ids": seen, "token_type_ids": seen * (self.family != "paligemma")}
        return found | {name: value for name, value in types.items() if name in self.names}
