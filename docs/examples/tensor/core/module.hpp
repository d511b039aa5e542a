// SPDX-License-Identifier: Apache-2.0
// Named parameters and buffers, which move together.
#pragma once

#include <string>

#include "ops.hpp"

namespace mini {

/// Moves tensors, as one batch for each device that they come from. After an error, all are where
/// they were.
inline void move(const std::vector<Tensor*>& tensors, Device device, To options = {}) {
  std::vector<Tensor> targets;
  std::map<berth::Device, std::vector<berth::CopyRange>> batches;
  std::shared_ptr<std::vector<Tensor>> sources;  // must outlive the copies
  if (options.non_blocking) sources = std::make_shared<std::vector<Tensor>>();
  for (const Tensor* tensor : tensors) {
    if (sources != nullptr) sources->push_back(*tensor);
    if (device.is_opaque() || tensor->device().is_opaque()) {
      targets.push_back(tensor->to(device));
      continue;
    }
    targets.emplace_back(tensor->shape(), device, options.non_blocking);
    batches[tensor->device()].push_back({targets.back().data(), tensor->data(), tensor->bytes()});
  }
  std::vector<berth::Transfer> transfers;
  for (const auto& [source, ranges] : batches) {
    transfers.push_back(library().runtime.copier().start_batch(
        ranges, library().streams(device, source), {.keep_alive = sources}));
  }
  if (!options.non_blocking) {
    for (const berth::Transfer& transfer : transfers) transfer.wait();
  }
  for (std::size_t index = 0; index < tensors.size(); ++index) *tensors[index] = targets[index];
}

/// A function with state. Its tensors and child modules are members, which it registers.
class Module {
 public:
  struct Named {
    std::string name;
    Tensor* tensor;
    bool is_buffer;  ///< moved and saved, but not trained
  };

  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;  // the registrations refer to members
  Module& operator=(const Module&) = delete;

  virtual Tensor forward(const Tensor& input) = 0;

  /// All tensors, those of children as "child.name".
  [[nodiscard]] std::vector<Named> tensors() const {
    std::vector<Named> all = own_;
    for (const auto& [name, child] : children_) {
      for (Named named : child->tensors()) {
        named.name.insert(0, name + ".");
        all.push_back(named);
      }
    }
    return all;
  }

  /// Moves all tensors that are elsewhere.
  void to(Device device, To options = {}) {
    device = devices().resolve(device);
    std::vector<Tensor*> elsewhere;
    for (const Named& named : tensors()) {
      if (named.tensor->device() != device) elsewhere.push_back(named.tensor);
    }
    move(elsewhere, device, options);
  }

 protected:
  void parameter(const std::string& name, Tensor& member) {
    own_.push_back({name, &member, false});
  }
  void buffer(const std::string& name, Tensor& member) { own_.push_back({name, &member, true}); }
  void child(const std::string& name, Module& member) { children_.emplace_back(name, &member); }

 private:
  std::vector<Named> own_;
  std::vector<std::pair<std::string, Module*>> children_;
};

}  // namespace mini
