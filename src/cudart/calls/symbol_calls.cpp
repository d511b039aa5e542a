// SPDX-License-Identifier: Apache-2.0
// Device variables.
// Source: CUDA Runtime API, cudaMemcpyToSymbol, cudaGetSymbolAddress.
#include <atomic>

#include "cudart/call.hpp"
#include "cudart/copies.hpp"
#include "cudart/functions.hpp"
#include "cudart/modules.hpp"
#include "cudart/notices.hpp"
#include "cudart/symbols.hpp"

namespace berth::cudart {

cudaError_t find(const Driver& driver, const Part& part, char*& start) {
  std::size_t bytes = 0;
  if (!modules().find_variable(part.symbol, bytes)) return cudaErrorInvalidSymbol;
  if (part.offset > bytes || part.bytes > bytes - part.offset) return cudaErrorInvalidValue;
  CUdeviceptr memory = 0;
  const CUresult result = modules().variable_address(driver, part.symbol, memory);
  start = reinterpret_cast<char*>(memory) + part.offset;
  return to_error(result);
}

namespace {

void tell_of_initial_values() {
  static std::atomic<bool> is_told = false;
  notice_once(is_told,
              "a device variable is read that the host has not written: initial values are in "
              "device code, which is not read, so it holds zeros unless other work has written it");
}

cudaError_t copy_to(const Part& part, const void* source, cudaMemcpyKind kind, Order order) {
  return call(Needs::context, [&](const Driver& driver) {
    if (!is_to_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
    char* start = nullptr;
    const cudaError_t found = find(driver, part, start);
    if (found != cudaSuccess) return found;
    modules().note_write(part.symbol);
    return to_error(copy(driver, start, source, part.bytes, kind, order));
  });
}

cudaError_t copy_from(void* destination, const Part& part, cudaMemcpyKind kind, Order order) {
  return call(Needs::context, [&](const Driver& driver) {
    if (!is_from_symbol(kind)) return cudaErrorInvalidMemcpyDirection;
    char* start = nullptr;
    const cudaError_t found = find(driver, part, start);
    if (found != cudaSuccess) return found;
    if (!modules().is_written(part.symbol)) tell_of_initial_values();
    return to_error(copy(driver, destination, start, part.bytes, kind, order));
  });
}

}  // namespace

cudaError_t berth_cudart_cudaMemcpyToSymbol(const void* symbol, const void* source,
                                            std::size_t bytes, std::size_t offset,
                                            cudaMemcpyKind kind) {
  return copy_to({symbol, offset, bytes}, source, kind, Order::now());
}

cudaError_t berth_cudart_cudaMemcpyToSymbolAsync(const void* symbol, const void* source,
                                                 std::size_t bytes, std::size_t offset,
                                                 cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_to({symbol, offset, bytes}, source, kind, Order::on(stream));
}

cudaError_t berth_cudart_cudaMemcpyFromSymbol(void* destination, const void* symbol,
                                              std::size_t bytes, std::size_t offset,
                                              cudaMemcpyKind kind) {
  return copy_from(destination, {symbol, offset, bytes}, kind, Order::now());
}

cudaError_t berth_cudart_cudaMemcpyFromSymbolAsync(void* destination, const void* symbol,
                                                   std::size_t bytes, std::size_t offset,
                                                   cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_from(destination, {symbol, offset, bytes}, kind, Order::on(stream));
}

cudaError_t berth_cudart_cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return call(Needs::context, [&](const Driver& driver) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    char* start = nullptr;
    const cudaError_t found = find(driver, {symbol, 0, 0}, start);
    if (found == cudaSuccess) modules().note_write(symbol);
    if (found == cudaSuccess) *pointer = start;
    return found;
  });
}

cudaError_t berth_cudart_cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  return call(Needs::context, [&](const Driver&) {
    if (bytes == nullptr) return cudaErrorInvalidValue;
    return modules().find_variable(symbol, *bytes) ? cudaSuccess : cudaErrorInvalidSymbol;
  });
}

}  // namespace berth::cudart
