/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Any bytes as a vocabulary: tokenizer.json if they begin with '{', else a tokenizer.bin
 * of llama2.c. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/model.h"

static nmb_status
use(nmb_run *run, const uint8_t *data, size_t size)
{
  const bool json = size && *data == '{';
  const char *path = nmb_format(run, "fuzz_tokens.%d%s", (int)getpid(), json ? ".json" : ".tmp");
  FILE *f = fopen(path, "wb");
  nmb__wfile w = {.path = "fuzz.bin"};
  nmb__vocab *v;
  if (!f || fwrite(data, 1, size, f) != size || fclose(f))
    die(run, "cannot write");
  const nmb_status s = nmb__vocab_open(run, &w, path, 64, &v);
  unlink(path);
  NMB_TRY(s);
  return text_use(run, v);
}

static void
bytes_make(bytes *f)
{
  static const char text[] =
      "{\"added_tokens\":[{\"id\":5,\"content\":\"<s>\",\"special\":true}],"
      "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
      "\"pattern\":{\"Regex\":\"(?i:a)|\\\\p{N}{1,3}\"},\"behavior\":\"Isolated\"},"
      "{\"type\":\"ByteLevel\",\"use_regex\":true}]},"
      "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
      "{\"id\":\"<s>\"}}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"a\",\"vocab\":"
      "{\"a\":0,\"b\":1,\"ab\":2,\"1\":3},\"merges\":[\"a b\",[\"b\",\"a\"]]}}";
  put_bytes(f, text);
}

static void
characters_make(bytes *f)
{
  static const char text[] =
      "{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],"
      "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
      "\"_\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"}]},"
      "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"byte_fallback\":true,\"vocab\":"
      "{\"<unk>\":0,\"<s>\":1,\"<0x61>\":2,\"a\":3,\"b\":4,\"ab\":5},\"merges\":[\"a b\"]}}";
  put_bytes(f, text);
}

static void
unigram_make(bytes *f)
{
  static const char text[] =
      "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":"
      "\"always\"},\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
      "[\"\xe2\x96\x81\",-1.5],[\"a\",-2],[\"b\",-2.5],[\"ab\",-3]]}}";
  put_bytes(f, text);
}

static void
llama2_make(bytes *f)
{
  static const char *const pieces[] = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x61>",
                                       " ",     "a",       "b",        "ab"};
  put(f, 7, 4);
  for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    put(f, 0xc1000000 + (i << 8), 4);
    put(f, strlen(pieces[i]), 4);
    put_bytes(f, pieces[i]);
  }
}

static const char *const words[] = {"-1", "64", "63", "4294967296", "9223372036854775807", "1e999",
                                    "null", "[]", "{}", "[[[[[[[[[[", "\"\"", "\"\\u0000\"", "\"a b\"",
                                    "\"(a*)*b\"", "\"(\"", "\"[\"", "\"\\\\p{\"", "\"(?R)\"", "\"<0x00>\"",
                                    "true", "false", "\"Unigram\"", "\"BPE\"", "\"Sequence\"", ",", "}",
                                    "\"type\":", "\"ByteLevel\"", "\"Digits\"", "\"Punctuation\"", NULL};
static const seed seeds[] = {{"bytes.json", bytes_make},
                             {"characters.json", characters_make},
                             {"unigram.json", unigram_make},
                             {"llama2.bin", llama2_make}};
static const target tokens = {seeds, sizeof seeds / sizeof *seeds, use, words};
FUZZ_TARGET(tokens)
