// SPDX-License-Identifier: Apache-2.0
// Which of the processes of one job on this machine this one is, as the launcher says it.
#pragma once

#include <optional>

#include "berth/export.h"

namespace berth {

/// Counts the processes of a job on one machine.
struct LocalRank {
  int rank = 0;               ///< from 0
  const char* variable = "";  ///< the environment variable that says so, for the process's life
};

/// From the first of these environment variables that is set; the others are not read:
///
///   LOCAL_RANK                  torchrun: PyTorch, "torchrun (Elastic Launch)"
///   OMPI_COMM_WORLD_LOCAL_RANK  Open MPI: "Environment variables set for MPI applications"
///   MV2_COMM_WORLD_LOCAL_RANK   MVAPICH2: its User Guide
///   MPI_LOCALRANKID             Hydra, of MPICH and Intel MPI: MPICH's src/pm/hydra
///   JSM_NAMESPACE_LOCAL_RANK    jsrun of IBM's Job Step Manager: PyTorch Lightning, "LSFEnvironment"
///   PALS_LOCAL_RANKID           HPE Cray PALS: its mpiexec(1)
///   FLUX_TASK_LOCAL_ID          Flux: flux-environment(7)
///   SLURM_LOCALID               Slurm: srun(1), "Output environment variables"
///
/// Launchers start each other, and a process inherits the variables of all of them. Those that are
/// started inside others come first: under torchrun in a step of Slurm, SLURM_LOCALID is torchrun's
/// own, 0 for all of its processes.
///
/// nullopt: none of them is set.
/// Errors   InvalidArgument: the first one that is set is no number from 0 in decimal digits.
/// Threads  Reads the environment, which no thread may change meanwhile.
BERTH_API std::optional<LocalRank> local_rank();

}  // namespace berth
