// SPDX-License-Identifier: Apache-2.0
#include "buffer/part_task.hpp"

namespace berth {

void PartTask::post(std::shared_ptr<PartTask> task) noexcept {
  TaskThread& thread = task->thread_;
  task->transfer_->begin_task();
  thread.post(std::move(task));
}

void PartTask::run() noexcept {
  std::exception_ptr failure;
  try {
    prepare();
    copy_all();
  } catch (...) {
    failure = std::current_exception();
  }
  release();
  slots_ = {};  // what operations still use belongs to them
  transfer_->finish(failure);
}

PartTask::Slot* PartTask::find_free() {
  for (Slot& slot : slots_) {
    if (slot.part == nullptr) slot.part = try_take_part();
    if (slot.part != nullptr && slot.is_idle && !slot.part->is_busy) return &slot;
  }
  return nullptr;
}

}  // namespace berth
