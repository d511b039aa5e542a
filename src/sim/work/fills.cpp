// SPDX-License-Identifier: Apache-2.0
#include "sim/work/fills.hpp"

#include "base/arithmetic.hpp"
#include "sim/work/pitch.hpp"
#include "sim/work/work_memory.hpp"

namespace berth::sim {

CUresult look_up(State& state, const Context& context, const Fill& fill, KnownFill& known) {
  const auto width = multiply_add(fill.columns, fill.value_bytes, 0);
  if (!width || !is_pitched(*width, fill.rows, fill.pitch)) return CUDA_ERROR_INVALID_VALUE;
  if (!is_aligned(fill.destination, fill.value_bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (fill.rows != 1 && !is_aligned(fill.pitch, fill.value_bytes)) return CUDA_ERROR_INVALID_VALUE;
  const Span to = state.addresses.span(fill.destination, extent(*width, fill.rows, fill.pitch));
  const bool ours = to.kind == Span::Kind::device || to.kind == Span::Kind::pinned;
  if (!ours || !may_access(to, context, Access::write)) return CUDA_ERROR_INVALID_VALUE;
  known = {.work = {fill.destination, *width, fill.value, fill.value_bytes, fill.rows, fill.pitch},
           .on_host = to.kind == Span::Kind::pinned};
  return CUDA_SUCCESS;
}

}  // namespace berth::sim
