// SPDX-License-Identifier: Apache-2.0
// The index of this process among the processes of a job on this machine, as set by the launcher.
#pragma once

#include <optional>

#include "berth/cpp20.hpp"
#include "berth/export.h"

namespace berth {

/// The rank of a process among the processes of a job on one machine.
struct LocalRank {
  int rank = 0;  ///< from 0
  /// the environment variable it was read from; valid for the life of the process
  const char* variable = "";
};

/// Reads the local rank from the first of these environment variables that is set; the others are
/// not read:
///
///     LOCAL_RANK                  torchrun: PyTorch, "torchrun (Elastic Launch)"
///     OMPI_COMM_WORLD_LOCAL_RANK  Open MPI: "Environment variables set for MPI applications"
///     MV2_COMM_WORLD_LOCAL_RANK   MVAPICH2: its User Guide
///     MPI_LOCALRANKID             Hydra, of MPICH and Intel MPI: MPICH's src/pm/hydra
///     JSM_NAMESPACE_LOCAL_RANK    jsrun of IBM's Job Step Manager: Lightning, "LSFEnvironment"
///     PALS_LOCAL_RANKID           HPE Cray PALS: its mpiexec(1)
///     FLUX_TASK_LOCAL_ID          Flux: flux-environment(7)
///     SLURM_LOCALID               Slurm: srun(1), "Output environment variables"
///
/// Launchers can start each other, and a process inherits the variables of all of them. Launchers
/// that are started inside others come first: under torchrun in a Slurm step, SLURM_LOCALID is
/// torchrun's own, 0 for all of its processes.
///
/// Returns nullopt if none of them is set.
/// Errors   InvalidArgument: the first one that is set is not a decimal number from 0.
/// Threads  Reads the environment, which no thread may change meanwhile.
BERTH_API std::optional<LocalRank> local_rank();

}  // namespace berth
