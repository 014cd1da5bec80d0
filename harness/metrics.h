/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The columns that metrics become. */
#ifndef NMB__METRICS_H
#define NMB__METRICS_H

#include "harness/experiment.h"

#define NMB__GAP "gap" /* latency over bound, minus 1: from two simulators */

/* The column of a metric of the i-th simulator: its name, or SIMULATOR_NAME if an
 * earlier simulator of the experiment has a metric of that name. */
const char *nmb__metric_column(nmb_run *, const nmb__experiment *, int sim,
                               const char *metric);
/* Names of the dimensions that a metric's labels stand for; the number of labels is
 * known from the values.  Unknown metrics get NAME_part and NAME_part2. */
const char *nmb__metric_label(nmb_run *, const char *metric, int i);
/* The plugin of the i-th simulator. */
const nmb_plugin *nmb__simulator(nmb_run *, const nmb__experiment *, int sim);
#endif
