// SPDX-License-Identifier: Apache-2.0
#include "device/backend_table.hpp"

#include <utility>

#include "berth/error.hpp"

#include "base/check.hpp"
#include "base/format.hpp"
#include "base/quoted.hpp"
#include "base/text_list.hpp"
#include "device/visible_variables.hpp"

namespace berth {
namespace {

/// A larger count is treated as an error of the backend.
constexpr int kDevicesMax = 65536;

}  // namespace

std::string list_devices(DeviceType type, int count, const char* kind) {
  switch (count) {
    case 0:
      return format_text("there are no {} devices", kind);
    case 1:
      return format_text("there is {}:0", type.name());
    default:
      return format_text("there are {0}:0 to {0}:{1}", type.name(), count - 1);
  }
}

RegisteredBackend::RegisteredBackend(DeviceType type_, std::unique_ptr<DeviceBackend> backend_)
    : type(type_),
      backend(std::move(backend_)),
      name(on_one_line(backend->name())),
      attributes(backend->attributes()) {
  const int count = backend->count();
  if (count < 0 || count > kDevicesMax) {
    throw InvalidArgument(
        format_text("the backend of {} ({}) reports {} devices; accepted: 0 to {}", type.name(),
                    name, count, kDevicesMax));
  }
  variables = visible_variables(type.name(), name);
  for (int index = 0; index < count; ++index) {
    std::vector<DeviceAttribute>& known = devices.emplace_back(backend->describe(index)).attributes;
    known.insert(known.end(), variables.begin(), variables.end());
  }
}

RegisteredBackend::~RegisteredBackend() {
  // Its destruction may need threads that only the parent of a forked child has.
  if (!origin.is_here()) keep_until_exit(std::move(backend));
}

std::string RegisteredBackend::list() const {
  std::string listed = list_devices(type, count(), std::string(type.name()).c_str());
  for (const DeviceAttribute& variable : variables) listed += "; " + variable_text(variable);
  return listed;
}

void BackendTable::require_free(DeviceType type) const {
  if (type == DeviceType::cpu() || type == DeviceType::cuda()) {
    throw InvalidArgument(format_text(
        "{} is a device type of berth's own; accepted for a backend: another type, registered by "
        "name",
        type.name()));
  }
  if (const RegisteredBackend* first = find(type)) {
    throw InvalidArgument(
        format_text("device type {} has a backend ({}); accepted: one for each "
                    "type",
                    type.name(), first->name));
  }
}

void BackendTable::add(DeviceType type, std::unique_ptr<DeviceBackend> backend) {
  if (backend == nullptr) {
    throw InvalidArgument(
        format_text("the backend of {} is null, which is not accepted", type.name()));
  }
  require_free(type);
  // Without the lock, because this calls the backend.
  auto added = std::make_unique<RegisteredBackend>(type, std::move(backend));
  const MutexLock lock(mutex_);
  require_free(type);
  owned_.push_back(std::move(added));
  problems_.erase(type);
  std::atomic<const RegisteredBackend*>& slot = slots_[static_cast<std::size_t>(type.number())];
  BERTH_CHECK(slot.load(std::memory_order_relaxed) == nullptr);  // devices of the first are in use
  slot.store(owned_.back().get(), std::memory_order_release);
}

std::vector<const RegisteredBackend*> BackendTable::all() const {
  std::vector<const RegisteredBackend*> all;
  for (const auto& slot : slots_) {
    if (const RegisteredBackend* backend = slot.load(std::memory_order_acquire))
      all.push_back(backend);
  }
  return all;
}

std::string BackendTable::list() const {
  std::vector<std::string> texts;
  for (const RegisteredBackend* backend : all())
    texts.push_back(format_text("{} devices ({})", backend->type.name(), backend->list()));
  return join_texts(texts, ", and ");
}

void BackendTable::refuse_unmanaged(Device device, const std::string& accepted) const {
  const std::string known = problem(device.type());
  throw InvalidArgument(format_text("{}: berth manages no devices of type {}{}{}; accepted: {}",
                                    device.to_string(), device.type().name(),
                                    known.empty() ? "" : ": ", known, accepted));
}

void BackendTable::note_problem(DeviceType type, std::string problem) {
  const MutexLock lock(mutex_);
  problems_[type] = std::move(problem);
}

std::string BackendTable::problem(DeviceType type) const {
  const MutexLock lock(mutex_);
  const auto found = problems_.find(type);
  return found == problems_.end() ? std::string() : found->second;
}

}  // namespace berth
