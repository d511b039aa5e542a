// SPDX-License-Identifier: Apache-2.0
#include "buffer/file_task.hpp"

namespace berth {

void FileTask::run() noexcept {
  std::exception_ptr failure;
  try {
    // Not in the constructor, because many tasks may wait for their turn.
    for (Part& part : parts_) part.memory.resize(std::min(range_.bytes, kPartBytes));
    copy_all();
  } catch (...) {
    failure = std::current_exception();
  }
  release();
  transfer_->finish(failure);
}

}  // namespace berth
