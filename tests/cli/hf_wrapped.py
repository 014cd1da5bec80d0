# SPDX-License-Identifier: GPL-3.0-or-later
# Checkpoints that hold a dense text model within something larger: its configuration nested
# and its tensors under other stems, beside those of vision and speech, which count for nothing.
# Sources: as in hf_dense.py.  Usage: hf_wrapped.py NMBENCH FOLDER [NAME..]
import sys

import numpy as np

import hf_dense as d
from tiny_hf import TOKENS, VOCAB, Cases, causal, frequencies, heads, rms, rotate

CASES = Cases()
GQA, H = d.GQA, d.H
CLASS = {}
for c in d.CASES.all:  # defaults of the text classes
    CLASS.setdefault(c[1], c[3])


def stems(model, head):
    """model.X -> model + X, and the head's name."""
    return lambda name: head + name[len('lm_head'):] if name.startswith('lm_head') else model + name[len('model.'):]


def nested(model_type, cls, key='text_config', **more):
    """The text model as one of the parts."""
    def wrap(c):
        text = {k: v for k, v in c.items() if k != 'architectures'}
        return {'architectures': [cls], 'model_type': model_type, 'torch_dtype': 'float32', 'image_token_index': 60,
                'vision_config': {'hidden_size': 16, 'model_type': 'clip_vision_model', 'num_hidden_layers': 2}, key: text, **more}
    return wrap


def flat(model_type, cls, **more):
    """Keys of the text model beside those of others."""
    return lambda c: {**c, 'architectures': [cls], 'model_type': model_type, **more}


def vision(*names):
    def add(W):
        for i, name in enumerate(names):
            W.raw(name, ('F32', 'F16')[i % 2], np.ones((3, 4), ('<f4', '<f2')[i % 2]))
    return add


def case(name, text, given, forward, wrap, rename, extra=(), v5=False):
    defaults = CLASS[text]
    CASES.add(text, None, defaults, given, forward, f'.{name}', vision(*extra), wrap=wrap, rename=rename, v5=v5)


OLD, NEW = stems('language_model.model.', 'language_model.lm_head'), stems('model.language_model.', 'lm_head')
TOWER = ('vision_tower.vision_model.embeddings.class_embedding', 'multi_modal_projector.linear_1.weight')
MORE = ('model.vision_tower.vision_model.embeddings.class_embedding', 'model.multi_modal_projector.linear_1.weight')
LLAVA = nested('llava', 'LlavaForConditionalGeneration', vision_feature_layer=-2, vision_feature_select_strategy='default',
               projector_hidden_act='gelu', ignore_index=-100)
case('llava', 'llama', GQA, d.llama, LLAVA, OLD, TOWER)
case('llava-new', 'llama', GQA, d.llama, LLAVA, NEW, MORE, v5=True)
case('llava-next', 'mistral', dict(GQA, sliding_window=None), d.mistral, nested('llava_next', 'LlavaNextForConditionalGeneration',
     image_grid_pinpoints=[[336, 672]], use_image_newline_parameter=True), OLD, (*TOWER, 'image_newline'))
case('llava-onevision', 'qwen2', GQA, d.qwen2, nested('llava_onevision', 'LlavaOnevisionForConditionalGeneration', vision_aspect_ratio='anyres_max_9'),
     NEW, MORE)
case('mistral3', 'mistral', dict(GQA, head_dim=12, sliding_window=None), d.mistral, nested('mistral3', 'Mistral3ForConditionalGeneration',
     spatial_merge_size=2, multimodal_projector_bias=False), OLD, TOWER)
case('paligemma', 'gemma', dict(GQA, head_dim=16), d.gemma, nested('paligemma', 'PaliGemmaForConditionalGeneration', projection_dim=16, hidden_size=H), OLD,
     TOWER)
case('gemma3', 'gemma3_text', dict(GQA, head_dim=16, sliding_window=4), d.gemma3, nested('gemma3', 'Gemma3ForConditionalGeneration',
     mm_tokens_per_image=256, boi_token_index=61, eoi_token_index=62), OLD, TOWER)
case('gemma3-new', 'gemma3_text', dict(GQA, head_dim=16, sliding_window=4), d.gemma3, nested('gemma3', 'Gemma3ForConditionalGeneration'), NEW, MORE)
VL = dict(vision_config={'depth': 2, 'embed_dim': 16}, vision_start_token_id=60, vision_end_token_id=61, vision_token_id=62, image_token_id=63,
          video_token_id=64)
MROPE = {'type': 'mrope', 'mrope_section': [1, 1, 2]}
VISUAL = ('visual.blocks.0.attn.qkv.weight', 'visual.merger.mlp.0.weight')
case('qwen2_vl', 'qwen2', dict(GQA, rope_scaling=MROPE, rope_theta=1e6), d.qwen2, flat('qwen2_vl', 'Qwen2VLForConditionalGeneration', **VL),
     lambda n: n, VISUAL)
case('qwen2_5_vl', 'qwen2', dict(GQA, rope_scaling=MROPE, rope_theta=1e6, tie_word_embeddings=True), d.qwen2,
     lambda c: {'architectures': ['Qwen2_5_VLForConditionalGeneration'], 'model_type': 'qwen2_5_vl', **VL, 'text_config': {
         **{k: v for k, v in c.items() if k != 'architectures'}, 'model_type': 'qwen2_5_vl_text', 'tie_word_embeddings': True}}, NEW,
     ('model.visual.blocks.0.attn.qkv.weight',))
MROPE3 = {'rope_type': 'default', 'mrope_section': [1, 1, 2], 'mrope_interleaved': True}
case('qwen3_vl', 'qwen3', dict(GQA, head_dim=12, rope_scaling=MROPE3, rope_theta=5e6), d.qwen3, lambda c: {
    'architectures': ['Qwen3VLForConditionalGeneration'], 'model_type': 'qwen3_vl', **VL, 'text_config': {
        **{k: v for k, v in c.items() if k not in ('architectures', 'use_sliding_window', 'sliding_window', 'max_window_layers')},
        'model_type': 'qwen3_vl_text'}}, NEW, ('model.visual.blocks.0.attn.qkv.weight',))
case('internvl', 'internlm2', dict(GQA, bias=False), d.internlm2, nested('internvl_chat', 'InternVLChatModel', 'llm_config', downsample_ratio=0.5,
     dynamic_image_size=True, force_image_size=448, select_layer=-1, template='internlm2-chat', use_thumbnail=True, ps_version='v2',
     max_dynamic_patch=12, min_dynamic_patch=1, use_backbone_lora=0, use_llm_lora=0, pad2square=False),
     lambda n: 'language_model.' + n, ('vision_model.embeddings.class_embedding', 'mlp1.0.weight'))
case('smolvlm', 'llama', GQA, d.llama, nested('smolvlm', 'SmolVLMForConditionalGeneration', scale_factor=4, image_token_id=60), stems(
    'model.text_model.', 'lm_head'), ('model.vision_model.embeddings.patch_embedding.weight', 'model.connector.modality_projection.proj.weight'))
case('minicpmv', 'qwen2', GQA, d.qwen2, flat('minicpmv', 'MiniCPMV', query_num=64, slice_config={'max_slice_nums': 9, 'model_type': 'minicpmv'},
     slice_mode=True, vision_config={'model_type': 'siglip'}, version=2.6, batch_vision_input=True, drop_vision_last_layer=False, image_size=448,
     use_image_id=True, vision_batch_size=16), lambda n: 'llm.' + n, ('resampler.query', 'vpm.embeddings.patch_embedding.weight'))
case('phi3_v', 'phi3', GQA, d.phi3, flat('phi3_v', 'Phi3VForCausalLM', embd_layer={'embedding_cls': 'image'}, img_processor={'name': 'clip'}),
     lambda n: n, ('model.vision_embed_tokens.img_projection.0.weight',))


def base_layers(name):
    """Weights beside adapters."""
    stem = name.rsplit('.', 1)
    return f'{stem[0]}.base_layer.{stem[1]}' if stem[0].endswith('_proj') else name


case('phi4mm', 'phi3', dict(GQA, tie_word_embeddings=True, partial_rotary_factor=0.75, hidden_size=64), d.phi3, flat(
    'phi4mm', 'Phi4MMForCausalLM', embd_layer={'embedding_cls': 'image_audio'}, vision_lora={'r': 2}, speech_lora={'r': 2}, audio_processor={}),
    base_layers, ('model.layers.0.self_attn.qkv_proj.lora_A.vision.weight', 'model.embed_tokens_extend.audio_embed.encoder.weight'))
case('qwen2_audio', 'qwen2', GQA, d.qwen2, nested('qwen2_audio', 'Qwen2AudioForConditionalGeneration', audio_config={'model_type': 'qwen2_audio_encoder'},
     audio_token_index=60), OLD, ('audio_tower.conv1.weight', 'multi_modal_projector.linear.weight'))


def rotations(c):
    """As version 5 of the library saves a model with two kinds of layers."""
    c = dict(c)
    scaling = c.pop('rope_scaling', None) or {'rope_type': 'default'}
    c['rope_parameters'] = {'full_attention': {**scaling, 'rope_theta': c.pop('rope_theta', 1e6)},
                            'sliding_attention': {'rope_type': 'default', 'rope_theta': c.pop('rope_local_base_freq', 10000.0)}}
    return c


CASES.add('gemma3_text', 'Gemma3ForCausalLM', CLASS['gemma3_text'], dict(
    GQA, head_dim=16, sliding_window=4, layer_types=d.every(2), rope_scaling={'rope_type': 'linear', 'factor': 8.0}), d.gemma3, '.v5', wrap=rotations)

if __name__ == '__main__':
    sys.exit(CASES.run(sys.argv))
