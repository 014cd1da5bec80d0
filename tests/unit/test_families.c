/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Families that have no file in models/: the number of parameters of a model of each,
 * as the sum over its tensors (GLM-4.5-Air with the selection biases of its 45 routers).
 *
 * How far to trust the totals, here and in tests/data/families.json: most were written
 * down from memory of the sums that the models' public pages show and agree with the
 * counts to the last digit; they were not looked up again one by one.  A few are what the
 * counts gave, and are there so that a change shows (the files do not mark them apart).
 * Remembered totals that disagreed were left out.  Settings follow the models' public
 * config.json, with ' for ". */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/run.h"
#include "frontend/counts.h"
#include "tests/unit/unit.h"

static const struct {
  const char *name;
  int64_t total;
  const char *config;
} known[] = {
    {"qwen-7b", INT64_C(7721324544),
     "{'model_type':'qwen','hidden_size':4096,'intermediate_size':22016,'num_hidde"
     "n_layers':32,'num_attention_heads':32,'vocab_size':151936,'kv_channels':128,"
     "'layer_norm_epsilon':1e-06,'no_bias':true,'rotary_pct':1.0,'rotary_emb_base'"
     ":10000,'seq_length':8192,'use_dynamic_ntk':true,'use_logn_attn':true,'use_fl"
     "ash_attn':'auto','bf16':false,'fp16':false,'fp32':false,'tie_word_embeddings"
     "':false,'scale_attn_weights':true,'use_cache_kernel':false,'use_cache_quanti"
     "zation':false,'onnx_safe':null,'attn_dropout_prob':0.0,'emb_dropout_prob':0."
     "0,'max_position_embeddings':8192,'initializer_range':0.02}"},
    {"pythia-1b", INT64_C(1011781632),
     "{'model_type':'gpt_neox','hidden_size':2048,'intermediate_size':8192,'num_hi"
     "dden_layers':16,'num_attention_heads':8,'vocab_size':50304,'rotary_pct':0.25"
     ",'rotary_emb_base':10000,'use_parallel_residual':true,'tie_word_embeddings':"
     "false,'layer_norm_eps':1e-05,'hidden_act':'gelu','max_position_embeddings':2"
     "048}"},
    {"pythia-70m", INT64_C(70426624),
     "{'model_type':'gpt_neox','hidden_size':512,'intermediate_size':2048,'num_hid"
     "den_layers':6,'num_attention_heads':8,'vocab_size':50304,'rotary_pct':0.25,'"
     "rotary_emb_base':10000,'use_parallel_residual':true,'tie_word_embeddings':fa"
     "lse,'hidden_act':'gelu','max_position_embeddings':2048}"},
    {"phi-2", INT64_C(2779683840),
     "{'model_type':'phi','hidden_size':2560,'intermediate_size':10240,'num_hidden"
     "_layers':32,'num_attention_heads':32,'num_key_value_heads':32,'vocab_size':5"
     "1200,'partial_rotary_factor':0.4,'qk_layernorm':false,'hidden_act':'gelu_new"
     "','tie_word_embeddings':false,'max_position_embeddings':2048,'rope_theta':10"
     "000.0,'embd_pdrop':0.0,'resid_pdrop':0.1,'layer_norm_eps':1e-05}"},
    {"gemma-2b", INT64_C(2506172416),
     "{'model_type':'gemma','hidden_size':2048,'intermediate_size':16384,'num_hidd"
     "en_layers':18,'num_attention_heads':8,'num_key_value_heads':1,'head_dim':256"
     ",'vocab_size':256000,'hidden_act':'gelu','hidden_activation':null,'max_posit"
     "ion_embeddings':8192,'rms_norm_eps':1e-06,'rope_theta':10000.0}"},
    {"gemma-7b", INT64_C(8537680896),
     "{'model_type':'gemma','hidden_size':3072,'intermediate_size':24576,'num_hidd"
     "en_layers':28,'num_attention_heads':16,'num_key_value_heads':16,'head_dim':2"
     "56,'vocab_size':256000,'hidden_act':'gelu_pytorch_tanh'}"},
    {"stablelm-2-1_6b", INT64_C(1644515328),
     "{'model_type':'stablelm','hidden_size':2048,'intermediate_size':5632,'num_hi"
     "dden_layers':24,'num_attention_heads':32,'num_key_value_heads':32,'vocab_siz"
     "e':100352,'use_qkv_bias':true,'partial_rotary_factor':0.25,'layer_norm_eps':"
     "1e-05,'rope_theta':10000,'tie_word_embeddings':false,'hidden_act':'silu','us"
     "e_cache':true}"},
    {"stablelm-3b", INT64_C(2795443200),
     "{'model_type':'stablelm','hidden_size':2560,'intermediate_size':6912,'num_hi"
     "dden_layers':32,'num_attention_heads':32,'num_key_value_heads':32,'vocab_siz"
     "e':50304,'partial_rotary_factor':0.25,'layer_norm_eps':1e-05,'tie_word_embed"
     "dings':false}"},
    {"falcon-7b", INT64_C(6921720704),
     "{'model_type':'falcon','hidden_size':4544,'num_hidden_layers':32,'num_attent"
     "ion_heads':71,'vocab_size':65024,'multi_query':true,'parallel_attn':true,'bi"
     "as':false,'alibi':false,'new_decoder_architecture':false,'layer_norm_epsilon"
     "':1e-05,'apply_residual_connection_post_layernorm':false}"},
    {"mpt-7b", INT64_C(6649286656),
     "{'model_type':'mpt','d_model':4096,'n_heads':32,'n_layers':32,'expansion_rat"
     "io':4,'vocab_size':50432,'max_seq_len':2048,'no_bias':true,'norm_type':'low_"
     "precision_layernorm','attn_config':{'alibi':true,'alibi_bias_max':8,'attn_im"
     "pl':'torch','attn_pdrop':0,'attn_type':'multihead_attention','attn_uses_sequ"
     "ence_id':false,'clip_qkv':null,'prefix_lm':false,'qk_ln':false,'softmax_scal"
     "e':null},'emb_pdrop':0,'resid_pdrop':0,'learned_pos_emb':true,'logit_scale':"
     "null,'init_device':'cpu','verbose':0,'embedding_fraction':1.0,'use_cache':fa"
     "lse,'init_config':{'a':1}}"},
    {"internlm2-7b", INT64_C(7737708544),
     "{'model_type':'internlm2','bias':false,'hidden_size':4096,'intermediate_size"
     "':14336,'num_hidden_layers':32,'num_attention_heads':32,'num_key_value_heads"
     "':8,'vocab_size':92544,'rope_theta':1000000,'rope_scaling':{'type':'dynamic'"
     ",'factor':2.0},'max_position_embeddings':32768,'rms_norm_eps':1e-05,'attn_im"
     "plementation':'eager','hidden_act':'silu','tie_word_embeddings':false}"},
    {"smollm3", INT64_C(3075098624),
     "{'model_type':'smollm3','hidden_size':2048,'intermediate_size':11008,'num_hi"
     "dden_layers':36,'num_attention_heads':16,'num_key_value_heads':4,'vocab_size"
     "':128256,'no_rope_layer_interval':4,'no_rope_layers':[1,1,1,0,1,1,1,0,1,1,1,"
     "0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0,1,1,1,0],'layer_types':['full_atte"
     "ntion','full_attention','full_attention','full_attention','full_attention','"
     "full_attention','full_attention','full_attention','full_attention','full_att"
     "ention','full_attention','full_attention','full_attention','full_attention',"
     "'full_attention','full_attention','full_attention','full_attention','full_at"
     "tention','full_attention','full_attention','full_attention','full_attention'"
     ",'full_attention','full_attention','full_attention','full_attention','full_a"
     "ttention','full_attention','full_attention','full_attention','full_attention"
     "','full_attention','full_attention','full_attention','full_attention'],'slid"
     "ing_window':null,'use_sliding_window':false,'max_window_layers':28,'rope_the"
     "ta':5000000.0,'rope_scaling':null,'attention_bias':false,'mlp_bias':false,'m"
     "ax_position_embeddings':65536}"},
    {"olmo-1b", INT64_C(1176764416),
     "{'model_type':'olmo','hidden_size':2048,'intermediate_size':8192,'num_hidden"
     "_layers':16,'num_attention_heads':16,'num_key_value_heads':16,'vocab_size':5"
     "0304,'tie_word_embeddings':true,'clip_qkv':null}"},
    {"olmo-7b", INT64_C(6888095744),
     "{'model_type':'olmo','hidden_size':4096,'intermediate_size':11008,'num_hidde"
     "n_layers':32,'num_attention_heads':32,'num_key_value_heads':32,'vocab_size':"
     "50304,'tie_word_embeddings':false,'clip_qkv':null}"},
    {"baichuan2-7b", INT64_C(7505973248),
     "{'model_type':'baichuan','hidden_size':4096,'intermediate_size':11008,'num_h"
     "idden_layers':32,'num_attention_heads':32,'vocab_size':125696,'model_max_len"
     "gth':4096,'max_position_embeddings':4096,'z_loss_weight':0,'tie_word_embeddi"
     "ngs':false}"},
    {"starcoder", INT64_C(15517456384),
     "{'model_type':'gpt_bigcode','n_embd':6144,'n_head':48,'n_inner':24576,'n_lay"
     "er':40,'n_positions':8192,'vocab_size':49152,'multi_query':true,'activation_"
     "function':'gelu','attention_softmax_in_fp32':true,'scale_attention_softmax_i"
     "n_fp32':true,'inference_runner':0,'max_batch_size':null,'max_sequence_length"
     "':null,'pad_key_length':true,'pre_allocate_kv_cache':false,'validate_runner_"
     "input':true,'scale_attn_weights':true}"},
    {"chatglm3", INT64_C(6243584000),
     "{'model_type':'chatglm','hidden_size':4096,'ffn_hidden_size':13696,'num_laye"
     "rs':28,'num_attention_heads':32,'kv_channels':128,'multi_query_attention':tr"
     "ue,'multi_query_group_num':2,'padded_vocab_size':65024,'vocab_size':65024,'a"
     "dd_qkv_bias':true,'add_bias_linear':false,'rmsnorm':true,'post_layer_norm':t"
     "rue,'original_rope':true,'seq_length':32768,'layernorm_epsilon':1e-05,'apply"
     "_residual_connection_post_layernorm':false,'apply_query_key_layer_scaling':t"
     "rue,'attention_softmax_in_fp32':true,'bias_dropout_fusion':true,'fp32_residu"
     "al_connection':false,'pre_seq_len':null,'prefix_projection':false,'quantizat"
     "ion_bit':0,'hidden_dropout':0.0,'attention_dropout':0.0,'use_cache':true,'ti"
     "e_word_embeddings':false,'interleaved_qkv':false,'classifier_dropout':null}"},
    {"glm-4-9b", INT64_C(9399951360),
     "{'model_type':'glm','hidden_size':4096,'intermediate_size':13696,'num_hidden"
     "_layers':40,'num_attention_heads':32,'num_key_value_heads':2,'head_dim':128,"
     "'vocab_size':151552,'attention_bias':true,'partial_rotary_factor':0.5,'rms_n"
     "orm_eps':1.5625e-07}"},
    {"glm4-9b-0414", INT64_C(9400279040),
     "{'model_type':'glm4','hidden_size':4096,'intermediate_size':13696,'num_hidde"
     "n_layers':40,'num_attention_heads':32,'num_key_value_heads':2,'head_dim':128"
     ",'vocab_size':151552,'attention_bias':true,'partial_rotary_factor':0.5,'rms_"
     "norm_eps':1e-05}"},
    {"command-r7b", INT64_C(8028033024),
     "{'model_type':'cohere2','hidden_size':4096,'intermediate_size':14336,'num_hi"
     "dden_layers':32,'num_attention_heads':32,'num_key_value_heads':8,'head_dim':"
     "128,'vocab_size':256000,'logit_scale':0.25,'sliding_window':4096,'sliding_wi"
     "ndow_pattern':4,'rope_theta':50000,'rotary_pct':1.0,'use_embedding_sharing':"
     "true,'use_gated_activation':true,'use_parallel_block':true,'use_parallel_emb"
     "edding':false,'position_embedding_type':'rope_gptj','order_of_interleaved_la"
     "yers':'local_attn_first','layer_switch':4,'use_qk_norm':false,'attention_bia"
     "s':false,'max_position_embeddings':132096,'layer_norm_eps':1e-05,'hidden_act"
     "':'silu'}"},
    {"exaone-3.5-7.8b", INT64_C(7818448896),
     "{'model_type':'exaone','hidden_size':4096,'intermediate_size':14336,'num_lay"
     "ers':32,'num_attention_heads':32,'num_key_value_heads':8,'head_dim':128,'voc"
     "ab_size':102400,'activation_function':'silu','layer_norm_epsilon':1e-05,'emb"
     "ed_dropout':0.0,'tie_word_embeddings':false,'rope_scaling':{'factor':8.0,'lo"
     "w_freq_factor':1.0,'high_freq_factor':4.0,'original_max_position_embeddings'"
     ":8192,'rope_type':'llama3'},'rope_theta':1000000}"},
    {"exaone4-1.2b", INT64_C(1279391488),
     "{'model_type':'exaone4','hidden_size':2048,'intermediate_size':4096,'num_hid"
     "den_layers':30,'num_attention_heads':32,'num_key_value_heads':8,'head_dim':6"
     "4,'vocab_size':102400,'sliding_window':null,'sliding_window_pattern':null,'t"
     "ie_word_embeddings':true}"},
    {"deepseek-moe-16b", INT64_C(16375728128),
     "{'model_type':'deepseek','hidden_size':2048,'intermediate_size':10944,'num_h"
     "idden_layers':28,'num_attention_heads':16,'num_key_value_heads':16,'vocab_si"
     "ze':102400,'moe_intermediate_size':1408,'n_routed_experts':64,'n_shared_expe"
     "rts':2,'num_experts_per_tok':6,'first_k_dense_replace':1,'moe_layer_freq':1,"
     "'norm_topk_prob':false,'scoring_func':'softmax','aux_loss_alpha':0.001,'seq_"
     "aux':true}"},
    {"granite-3-1b-a400m", INT64_C(1334628352),
     "{'model_type':'granitemoe','hidden_size':1024,'intermediate_size':512,'num_h"
     "idden_layers':24,'num_attention_heads':16,'num_key_value_heads':8,'num_local"
     "_experts':32,'num_experts_per_tok':8,'vocab_size':49155,'tie_word_embeddings"
     "':true,'attention_multiplier':0.015625,'embedding_multiplier':12.0,'logits_s"
     "caling':6.0,'residual_multiplier':0.22}"},
    {"ernie-0.3b", INT64_C(360748032),
     "{'model_type':'ernie4_5','hidden_size':1024,'intermediate_size':3072,'num_hi"
     "dden_layers':18,'num_attention_heads':16,'num_key_value_heads':2,'head_dim':"
     "128,'vocab_size':103424,'use_bias':false,'tie_word_embeddings':true,'max_pos"
     "ition_embeddings':131072,'rope_theta':500000}"},
    {"ernie-21b", INT64_C(21825437888),
     "{'model_type':'ernie4_5_moe','hidden_size':2560,'intermediate_size':12288,'n"
     "um_hidden_layers':28,'num_attention_heads':20,'num_key_value_heads':4,'vocab"
     "_size':103424,'use_bias':false,'tie_word_embeddings':true,'moe_num_experts':"
     "64,'moe_k':6,'moe_intermediate_size':1536,'moe_num_shared_experts':2,'moe_la"
     "yer_start_index':1,'moe_layer_end_index':-1,'moe_layer_interval':1,'moe_capa"
     "city':[64,64,64],'moe_use_aux_free':true,'moe_norm_min':1e-12}"},
    {"seed-oss", INT64_C(36151104512),
     "{'model_type':'seed_oss','hidden_size':5120,'intermediate_size':27648,'num_h"
     "idden_layers':64,'num_attention_heads':80,'num_key_value_heads':8,'head_dim'"
     ":128,'vocab_size':155136,'attention_bias':true,'attention_out_bias':false,'m"
     "lp_bias':false,'residual_dropout':0.1,'tie_word_embeddings':false,'rope_thet"
     "a':10000000.0,'rope_scaling':{'rope_type':'default'}}"},
    {"ling-lite", INT64_C(16801974272),
     "{'model_type':'bailing_moe','hidden_size':2048,'intermediate_size':5632,'num"
     "_hidden_layers':28,'num_attention_heads':16,'num_key_value_heads':4,'head_di"
     "m':128,'vocab_size':126464,'num_experts':64,'num_experts_per_tok':6,'num_sha"
     "red_experts':2,'moe_intermediate_size':1408,'first_k_dense_replace':0,'norm_"
     "topk_prob':true,'use_bias':false,'use_qkv_bias':false,'norm_head':false,'nor"
     "m_softmax':false,'tie_word_embeddings':false,'max_window_layers':28,'sliding"
     "_window':null}"},
    {"dots1", INT64_C(142774381696),
     "{'model_type':'dots1','hidden_size':4096,'intermediate_size':10944,'num_hidd"
     "en_layers':62,'num_attention_heads':32,'num_key_value_heads':32,'vocab_size'"
     ":152064,'n_routed_experts':128,'num_experts_per_tok':6,'n_shared_experts':2,"
     "'moe_intermediate_size':1408,'first_k_dense_replace':1,'moe_layer_freq':1,'n"
     "orm_topk_prob':true,'routed_scaling_factor':2.5,'scoring_func':'noaux_tc','n"
     "_group':1,'topk_group':1,'attention_bias':false,'tie_word_embeddings':false}"},
    {"glm-4.5-air", INT64_C(106852251264),
     "{'model_type':'glm4_moe','hidden_size':4096,'intermediate_size':10944,'num_h"
     "idden_layers':46,'num_attention_heads':96,'num_key_value_heads':8,'head_dim'"
     ":128,'vocab_size':151552,'attention_bias':true,'first_k_dense_replace':1,'mo"
     "e_intermediate_size':1408,'n_group':1,'topk_group':1,'n_routed_experts':128,"
     "'n_shared_experts':1,'num_experts_per_tok':8,'norm_topk_prob':true,'routed_s"
     "caling_factor':1.0,'num_nextn_predict_layers':1,'partial_rotary_factor':0.5,"
     "'use_qk_norm':false,'tie_word_embeddings':false}"},
    {"codegen-350m", INT64_C(356712448),
     "{'model_type':'codegen','n_embd':1024,'n_head':16,'n_layer':20,'n_inner':nul"
     "l,'n_positions':2048,'n_ctx':2048,'rotary_dim':32,'vocab_size':51200,'activa"
     "tion_function':'gelu_new','tie_word_embeddings':false}"},
    {"olmo3-7b", INT64_C(7298011136),
     "{'model_type':'olmo3','hidden_size':4096,'intermediate_size':11008,'num_hidd"
     "en_layers':32,'num_attention_heads':32,'num_key_value_heads':32,'vocab_size'"
     ":100278,'sliding_window':4096,'layer_types':['sliding_attention','sliding_at"
     "tention','sliding_attention','full_attention','sliding_attention','sliding_a"
     "ttention','sliding_attention','full_attention','sliding_attention','sliding_"
     "attention','sliding_attention','full_attention','sliding_attention','sliding"
     "_attention','sliding_attention','full_attention','sliding_attention','slidin"
     "g_attention','sliding_attention','full_attention','sliding_attention','slidi"
     "ng_attention','sliding_attention','full_attention','sliding_attention','slid"
     "ing_attention','sliding_attention','full_attention','sliding_attention','sli"
     "ding_attention','sliding_attention','full_attention'],'rope_theta':500000,'r"
     "ope_scaling':{'rope_type':'yarn','factor':8.0,'original_max_position_embeddi"
     "ngs':8192,'beta_fast':32.0,'beta_slow':1.0,'attention_factor':1.207944154167"
     "9836},'max_position_embeddings':65536,'tie_word_embeddings':false}"},
    {"qwen3-vl-8b", INT64_C(8190735360),
     "{'model_type':'qwen3_vl','text_config':{'model_type':'qwen3_vl_text','hidden"
     "_size':4096,'intermediate_size':12288,'num_hidden_layers':36,'num_attention_"
     "heads':32,'num_key_value_heads':8,'head_dim':128,'vocab_size':151936,'rope_s"
     "caling':{'mrope_interleaved':true,'mrope_section':[24,20,20],'rope_type':'de"
     "fault'},'rope_theta':5000000,'attention_bias':false},'vision_config':{},'tie"
     "_word_embeddings':false}"},
    {"minicpm-2b", INT64_C(2724880896),
     "{'model_type':'minicpm','hidden_size':2304,'intermediate_size':5760,'num_hid"
     "den_layers':40,'num_attention_heads':36,'num_key_value_heads':36,'vocab_size"
     "':122753,'scale_emb':12,'scale_depth':1.4,'dim_model_base':256,'rope_scaling"
     "':null}"},
    {"ling-mini-2.0", INT64_C(16255643392),
     "{'model_type':'bailing_moe_v2','hidden_size':2048,'intermediate_size':5120,'"
     "num_hidden_layers':20,'num_attention_heads':16,'num_key_value_heads':4,'head"
     "_dim':128,'vocab_size':157184,'num_experts':256,'num_experts_per_tok':8,'num"
     "_shared_experts':1,'moe_intermediate_size':512,'first_k_dense_replace':1,'n_"
     "group':8,'topk_group':4,'norm_topk_prob':true,'routed_scaling_factor':2.5,'s"
     "core_function':'sigmoid','use_qk_norm':true,'use_qkv_bias':false,'use_bias':"
     "false,'partial_rotary_factor':0.5,'moe_router_enable_expert_bias':true,'moe_"
     "shared_expert_intermediate_size':512,'num_nextn_predict_layers':0,'mtp_loss_"
     "scaling_factor':0,'tie_word_embeddings':false,'rope_scaling':null}"},
};

static char *
quoted(nmb_run *run, const char *s)
{
  char *out = nmb_strdup(run, s);
  for (char *c = out; *c; c++)
    *c = *c == '\'' ? '"' : *c;
  return out;
}

static void
test_totals(void)
{
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const nmb__arch *a = NULL;
    nmb__params p;
    const char *text = quoted(run, known[i].config);
    const nmb_status s = nmb__arch_parse(run, known[i].name, known[i].name, text,
                                         strlen(text), &a);
    if (s != NMB_OK)
      printf("\n  %s\n", nmb_error_text(run));
    CU_ASSERT_EQUAL(s, NMB_OK);
    if (s != NMB_OK)
      continue;
    nmb__arch_params(run, a, &p);
    if (p.total != known[i].total)
      printf("\n  %s: %lld\n", known[i].name, (long long)p.total);
    CU_ASSERT_EQUAL(p.total, known[i].total);
  }
  nmb__run_close(run);
}

static bool
differs(const json_t *row, const char *key, int64_t found)
{
  const json_t *want = json_object_get(row, key);
  if (!want || json_integer_value(want) == found)
    return false;
  printf("\n  %s: %s is %lld, expected %lld\n",
         json_string_value(json_object_get(row, "name")), key, (long long)found,
         (long long)json_integer_value(want));
  return true;
}

/* Further models: parameters in all, those that a token touches, bytes of KV cache a
 * token in 16 bit.  Where the numbers come from: see the head of this file. */
static void
test_file(void)
{
  nmb_run *run = nmb__run_open(NULL);
  const char *dir = getenv("srcdir");
  json_t *rows = json_load_file(
      nmb_format(run, "%s/tests/data/families.json", dir ? dir : "."), 0, NULL);
  CU_ASSERT_TRUE_FATAL(json_array_size(rows) > 80);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    char *text = json_dumps(json_object_get(row, "config"), 0);
    const char *name = json_string_value(json_object_get(row, "name"));
    const nmb__arch *a = NULL;
    nmb__params p;
    const nmb_status s = nmb__arch_parse(run, name, name, text, strlen(text), &a);
    free(text);
    if (s != NMB_OK)
      printf("\n  %s\n", nmb_error_text(run));
    CU_ASSERT_EQUAL(s, NMB_OK);
    if (s != NMB_OK)
      continue;
    nmb__arch_params(run, a, &p);
    CU_ASSERT_FALSE(differs(row, "total", p.total));
    CU_ASSERT_FALSE(differs(row, "active", p.active));
    CU_ASSERT_FALSE(differs(row, "kv", 2 * p.kv_elements));
  }
  json_decref(rows);
  nmb__run_close(run);
}

/* The class says the family where model_type does not; what is null asks for nothing. */
static void
test_class(void)
{
  static const struct {
    const char *head, *family;
  } row[] = {{"'model_type':'mine','architectures':['LlamaForCausalLM']", "llama"},
             {"'architectures':['Qwen3MoeForCausalLM'],'num_experts':16", "qwen3_moe"},
             {"'model_type':'x','architectures':['GPTNeoXForCausalLM']", "gpt_neox"},
             {"'model_type':'llama','twist':null", "llama"},
             {"'model_type':'x','architectures':['LlamaFor']", NULL},
             {"'architectures':['FooForCausalLM']", NULL}};
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const nmb__arch *a = NULL;
    const char *text = quoted(
        run, nmb_format(run, "{%s,'hidden_size':64,'num_hidden_layers':1,"
                             "'num_attention_heads':4,'vocab_size':8,"
                             "'intermediate_size':64}", row[i].head));
    const nmb_status s = nmb__arch_parse(run, "c", "c", text, strlen(text), &a);
    CU_ASSERT_EQUAL(s == NMB_OK, row[i].family != NULL);
    if (s == NMB_OK && row[i].family)
      CU_ASSERT_STRING_EQUAL(a->family, row[i].family);
  }
  nmb__run_close(run);
}

/* One matrix of 8 experts or none, in each way that files store them. */
static void
test_schemes(void)
{
  static const struct {
    const char *quant;
    int64_t bytes; /* of ffn.down: 96 rows of 200, and of attn.o: 96 of 96 */
  } scheme[] = {
      {"{'quant_method':'fp8','weight_block_size':[128,128]}",
       96 * 200 + 2 * 4 + 96 * 96 + 4},
      {"{'quant_method':'fp8'}", 96 * 200 + 4 + 96 * 96 + 4},
      {"{'quant_method':'fbgemm_fp8'}", 96 * 200 + 96 * 4 + 96 * 96 + 96 * 4},
      {"{'quant_method':'gptq','bits':4,'group_size':128}",
       96 * 100 + 2 * 96 * (2 * 8 + 4) / 8 + 200 * 4 + 96 * 48 + 96 * (16 + 4) / 8 +
           96 * 4},
      {"{'quant_method':'awq','bits':4,'group_size':64}",
       96 * 100 + 4 * 96 * 20 / 8 + 96 * 48 + 2 * 96 * 20 / 8},
      {"{'quant_method':'bitsandbytes','load_in_4bit':true,'bnb_4bit_quant_type':'nf4',"
       "'bnb_4bit_use_double_quant':true}",
       96 * 100 + 300 + 2 * 4 + 96 * 48 + 144 + 4},
      {"{'quant_method':'compressed-tensors','ignore':['re:.*self_attn.*','lm_head'],"
       "'config_groups':{'group_0':{'targets':['Linear'],'weights':{'num_bits':8,"
       "'type':'float','strategy':'channel'}}}}",
       96 * 200 + 96 * 2 + 2 * 96 * 96},
      {"{'quant_method':'modelopt','quant_algo':'NVFP4','ignore':['*self_attn*']}",
       96 * 100 + 96 * 13 + 4 + 2 * 96 * 96},
      {"{'quant_method':'bitnet'}", 96 * 50 + 2 + 96 * 24 + 2},
      /* 3 bit codes; groups of 128: two in 200 columns, one in 96 */
      {"{'quant_method':'gptq','bits':3,'group_size':128}",
       96 * 75 + 96 * 2 * 19 / 8 + 200 * 4 + 96 * 36 + 96 * 19 / 8 + 96 * 4},
      {"{'quant_method':'gptq','bits':4,'group_size':128,'dynamic':{'-:.*down_proj':{}}}",
       96 * 200 * 2 + 96 * 48 + 96 * 20 / 8 + 96 * 4},
      /* groups of 64 fill words of 16 in a row */
      {"{'quant_method':'awq','bits':4,'group_size':64,'version':'gemv'}",
       96 * 100 + 96 * 16 * 20 / 8 + 96 * 48 + 96 * 16 * 20 / 8},
      {"{'quant_method':'intel/auto-round','bits':4,'group_size':128,'data_type':'int'}",
       96 * 100 + 2 * 96 * 20 / 8 + 96 * 48 + 96 * 20 / 8},
      {"{'producer':{'name':'modelopt'},'quantization':{'quant_algo':'FP8',"
       "'exclude_modules':['lm_head'],'kv_cache_quant_algo':'FP8'}}",
       96 * 200 + 4 + 96 * 96 + 4},
      {"{'quant_method':'quark','exclude':['*self_attn*'],'global_quant_config':{'weight':"
       "{'dtype':'fp8_e4m3','qscheme':'per_channel','is_dynamic':false}}}",
       96 * 200 + 96 * 4 + 2 * 96 * 96},
      {"{'quant_method':'hqq','skip_modules':['lm_head'],'quant_config':"
       "{'weight_quant_params':{'nbits':4,'group_size':8,'axis':1}}}",
       96 * 100 + 96 * 25 * 4 + 96 * 48 + 96 * 12 * 4},
      {"{'quant_method':'eetq'}", 96 * 200 + 96 * 2 + 96 * 96 + 96 * 2},
      {"{'quant_method':'torchao','quant_type':{'default':{'_type':"
       "'Int8WeightOnlyConfig','_data':{},'_version':1}}}",
       96 * 200 + 96 * 2 + 96 * 96 + 96 * 2},
      {"{'quant_method':'aqlm','in_group_size':8,'out_group_size':1,'num_codebooks':2,"
       "'nbits_per_codebook':8}",
       96 * 50 + 96 * 2 + 2 * 256 * 16 + 96 * 24 + 96 * 2 + 2 * 256 * 16},
  };
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof scheme / sizeof *scheme; i++) {
    const char *text = quoted(
        run, nmb_format(run,
                        "{'model_type':'llama','hidden_size':96,'num_hidden_layers':1,"
                        "'num_attention_heads':2,'vocab_size':8,'intermediate_size':200,"
                        "'quantization_config':%s}",
                        scheme[i].quant));
    const nmb__arch *a = NULL;
    CU_ASSERT_EQUAL_FATAL(nmb__arch_parse(run, "c", "c", text, strlen(text), &a), NMB_OK);
    const nmb__piece *v;
    const int n = nmb__pieces(run, a, 0, &v);
    int64_t bytes = 0;
    for (int j = 0; j < n; j++)
      if (!strcmp(v[j].name, "ffn.down") || !strcmp(v[j].name, "attn.o"))
        bytes += nmb__piece_bytes(&v[j]);
    if (bytes != scheme[i].bytes)
      printf("\n  %s: %lld\n", scheme[i].quant, (long long)bytes);
    CU_ASSERT_EQUAL(bytes, scheme[i].bytes);
  }
  nmb__run_close(run);
}

/* Keys of quantization_config that are not understood, or of a wrong type, say where. */
static void
test_quant_keys(void)
{
  static const struct {
    const char *quant, *said; /* NULL: it is read */
  } row[] = {
      {"{'quant_method':'fp8','weight_blok_size':[128,128]}",
       "quantization_config.weight_blok_size: unknown key"},
      {"{'quant_method':'fp8','twist':null}", NULL},
      {"{'quant_method':'fp8','ignored_layers':'lm_head'}",
       "quantization_config.ignored_layers: found"},
      {"{'quant_method':'awq','bits':4,'group_size':64,'version':'new'}",
       "quantization_config.version: found"},
      {"{'quant_method':'gptq','bits':5,'group_size':64}", "quantization_config.bits"},
      {"{'quant_method':'gptq','bits':4,'group_size':64,'dynamic':{'+:.*':{'bits':8}}}",
       "quantization_config.dynamic"},
      {"{'quant_method':'compressed-tensors','config_groups':{'group_0':{'weights':"
       "{'num_bits':8,'type':'float','strategy':'tensor','twist':1}}}}",
       "config_groups.group_0.weights.twist: unknown key"},
      {"{'quant_method':'compressed-tensors','format':'marlin-24','config_groups':{}}",
       "quantization_config.format"},
      {"{'quant_method':'vptq'}", "quantization_config.quant_method"},
      {"{'quant_method':'gpqt'}", "did you mean 'gptq'"},
  };
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const nmb__arch *a = NULL;
    const char *text = quoted(
        run, nmb_format(run,
                        "{'model_type':'llama','hidden_size':96,'num_hidden_layers':1,"
                        "'num_attention_heads':2,'vocab_size':8,'intermediate_size':200,"
                        "'quantization_config':%s}",
                        row[i].quant));
    const nmb_status s = nmb__arch_parse(run, "c", "c", text, strlen(text), &a);
    CU_ASSERT_EQUAL(s == NMB_OK, row[i].said == NULL);
    if (s != NMB_OK && row[i].said && !strstr(nmb_error_text(run), row[i].said))
      printf("\n  %s\n", nmb_error_text(run));
    if (s != NMB_OK && row[i].said)
      CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), row[i].said));
  }
  nmb__run_close(run);
}

/* Hostile values: one line that names the key. */
static void
test_hostile(void)
{
  static const struct {
    const char *key, *more, *said;
  } row[] = {
      {"num_hidden_layers", "1000000000", "num_hidden_layers: found"},
      {"vocab_size", "4611686018427387904", "vocab_size: found"},
      {"vocab_size", "1180591620717411303424", "vocab_size"},
      {"hidden_size", "-64", "hidden_size: found"},
      {"hidden_size", "64.5", "hidden_size: found"},
      {"hidden_size", "'64'", "hidden_size: found"},
      {"num_attention_heads", "[]", "num_attention_heads: found"},
      {"num_attention_heads", "[4,4,4]", "num_attention_heads has 3 entries"},
      {"num_attention_heads", "true", "num_attention_heads: found"},
      {"num_key_value_heads", "3", "num_key_value_heads is 3"},
      {"layer_types", "['full_attention']", "layer_types"},
      {"layer_types", "{}", "layer_types: found"},
      {"rope_scaling", "{'type':'yarn','factor':-2}", "rope_scaling.factor"},
      {"rope_scaling", "{'type':'twist','factor':2}", "rope_scaling.type"},
      {"rms_norm_eps", "Infinity", "rms_norm_eps: found"},
      {"rope_theta", "NaN", "rope_theta: found"},
      {"hidden_act", "'twist'", "hidden_act 'twist'"},
      {"torch_dtype", "'int3'", "torch_dtype 'int3'"},
      {"a\\nb", "1", "a?b: unknown key"},
      {"mlp_only_layers", "[4]", "mlp_only_layers.0"},
      {"model_type", "5", "model_type: found"},
      {"text_config", "[1]", "text_config: found"},
      {"quantization_config", "'fp8'", "quantization_config: found"},
  };
  static const char *const base[][2] = {{"model_type", "'qwen3_moe'"},
                                        {"hidden_size", "64"},
                                        {"num_hidden_layers", "4"},
                                        {"num_attention_heads", "4"},
                                        {"num_key_value_heads", "4"},
                                        {"vocab_size", "8"},
                                        {"num_experts", "16"},
                                        {"intermediate_size", "64"}};
  nmb_run *run = nmb__run_open(NULL);
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    const nmb__arch *a = NULL;
    const char *text = nmb_format(run, "{'%s':%s", row[i].key, row[i].more);
    for (size_t j = 0; j < sizeof base / sizeof *base; j++)
      if (strcmp(base[j][0], row[i].key))
        text = nmb_format(run, "%s,'%s':%s", text, base[j][0], base[j][1]);
    text = quoted(run, nmb_format(run, "%s}", text));
    const nmb_status s = nmb__arch_parse(run, "c", "c", text, strlen(text), &a);
    CU_ASSERT_TRUE(s == NMB_BADINPUT || s == NMB_UNSUPPORTED);
    const bool said = strstr(nmb_error_text(run), row[i].said) != NULL;
    if (!said)
      printf("\n  %s: %s\n", row[i].said, nmb_error_text(run));
    CU_ASSERT_TRUE(said);
  }
  nmb__run_close(run);
}

/* Keys that are not understood are errors, or warnings that are kept. */
static void
test_lenient(void)
{
  const char *text = "{\"model_type\":\"llama\",\"hidden_size\":64,"
                     "\"num_hidden_layers\":1,\"num_attention_heads\":2,"
                     "\"vocab_size\":8,\"intermediate_size\":64,\"twist\":3}";
  nmb_run *run = nmb__run_open(NULL);
  const nmb__arch *a = NULL;
  CU_ASSERT_EQUAL(nmb__arch_parse(run, "c", "c", text, strlen(text), &a), NMB_BADINPUT);
  CU_ASSERT_PTR_NOT_NULL(strstr(nmb_error_text(run), "twist"));
  nmb__run_lenient(run, true);
  CU_ASSERT_EQUAL_FATAL(nmb__arch_parse(run, "c", "c", text, strlen(text), &a), NMB_OK);
  CU_ASSERT_EQUAL_FATAL(a->nwarning, 1);
  CU_ASSERT_PTR_NOT_NULL(strstr(a->warning[0], "twist"));
  nmb__run_close(run);
}

UNIT_MAIN("families", {"families have the parameters of their models", test_totals},
          {"published models have the parameters that are stated", test_file},
          {"a class names the family", test_class},
          {"quantised matrices have the bytes of their files", test_schemes},
          {"keys of quantization_config are known", test_quant_keys},
          {"hostile values name their key", test_hostile},
          {"lenient reading keeps what it lets pass", test_lenient})
