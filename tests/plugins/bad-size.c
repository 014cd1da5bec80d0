/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A descriptor of another size, as if built against other headers. */
#include "nmbench/nmb_plugin.h"

NMB_PLUGIN
{
    .abi = NMB_ABI,
    .size = (uint32_t)sizeof(nmb_plugin) - 8,
};
