libnmbench_la_SOURCES += frontend/model.h frontend/config.h frontend/arch.h frontend/quant.h \
  frontend/fields.def frontend/families.def frontend/keys.def frontend/idle.def frontend/nested.def frontend/modules.def \
  frontend/config.c frontend/arch.c frontend/rope.c frontend/extras.c frontend/quant.c frontend/quant-method.h frontend/quant-method.c \
  frontend/quant-keys.c frontend/quantkeys.def \
  frontend/mixer.c frontend/names.c frontend/build.h frontend/build.c \
  frontend/build-mixer.c frontend/build-rwkv.c frontend/build-streams.c frontend/build-altup.c frontend/build-pooled.c frontend/build-diff.c frontend/routing.c \
  frontend/counts.c frontend/counts-mixer.c frontend/counts.h frontend/conserve.c
libnmbench_la_SOURCES += frontend/wfile.h frontend/wfile.c frontend/gguf.c frontend/safetensors.c \
  frontend/llama2bin.c frontend/rwkvbin.c frontend/rwkvarch.c \
  frontend/source.h frontend/source.c \
  frontend/source-parts.h frontend/source-int.c frontend/source-code.c frontend/gguf.def frontend/ggufarch.c \
  frontend/wnames.def frontend/wnames-mixed.def frontend/wnames-own.def frontend/wnames.c frontend/wmodel.h frontend/wmodel.c \
  frontend/infer.h frontend/infer.c
libnmbench_la_SOURCES += frontend/ggufarch.h frontend/gguftensors.c frontend/ggufrope.c
libnmbench_la_SOURCES += frontend/token.h frontend/pre.def frontend/vocab.c frontend/vocab-gguf.c frontend/bpe.c frontend/tokjson.c
