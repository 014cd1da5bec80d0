/* SPDX-License-Identifier: GPL-3.0-or-later */
/* quantization_config -> the stored format of each class of tensor, per layer. */
#ifndef NMB__QUANT_H
#define NMB__QUANT_H

#include "frontend/config.h"

NMB_API nmb_status nmb__quant_resolve(nmb_run *, nmb__config *, nmb_loc file,
                                      nmb__arch *, nmb__layer *layer);
#endif
