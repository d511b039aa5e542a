// SPDX-License-Identifier: Apache-2.0
// The environment variables that local_rank() reads, in its order; berth/local_rank.hpp lists the
// launchers that set them.
#pragma once

namespace berth {

inline constexpr const char* kLocalRankVariables[] = {
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "JSM_NAMESPACE_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
};

}  // namespace berth
