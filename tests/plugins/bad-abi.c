/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A plugin of another ABI: it must be refused before anything else is read. */
#include "nmbench/nmb_plugin.h"

NMB_PLUGIN
{
    .abi = NMB_ABI + 1,
    .size = (uint32_t)sizeof(nmb_plugin),
};
