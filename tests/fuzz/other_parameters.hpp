// SPDX-License-Identifier: Apache-2.0
// Kinds of parameters: texts, arrays and their lengths, structures, functions.
#pragma once

#include <cuda.h>

#include <array>
#include <string>
#include <vector>

#include "fuzz/parameters.hpp"

namespace berth::fuzz {

inline constexpr std::size_t kArrayRoom = 8;

/// A buffer for text. Nothing may be written behind its length, which the next parameter tells.
struct TextOut {
  class Drawn {
   public:
    explicit Drawn(Turn& turn);
    [[nodiscard]] Bits value() const {
      return {is_null_ ? 0 : reinterpret_cast<std::uint64_t>(text_.data())};
    }
    void after(Turn& turn, bool succeeded) const;

   private:
    std::vector<char> text_;
    std::size_t capacity_;
    bool is_null_;
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return Drawn(turn); }
};
inline constexpr TextOut text_out{};

/// The length of the buffer or array that was drawn.
struct Capacity {
  bool is_signed;  ///< and may therefore be negative, where the buffer is empty
  [[nodiscard]] Number::Drawn draw(Turn& turn) const;
};
inline constexpr Capacity capacity{false};
inline constexpr Capacity signed_capacity{true};

/// Text for a function: what another has given, a word of the driver's, bytes of the input, or
/// null.
struct TextIn {
  struct Drawn {
    std::optional<std::string> text;
    [[nodiscard]] const char* value() const { return text ? text->c_str() : nullptr; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr TextIn text_in{};

/// Room for eight results of up to 64 bytes, or for eight handles.
struct ArrayOut {
  std::optional<Kind> kind;

  class Drawn {
   public:
    Drawn(Turn& turn, std::optional<Kind> kind);
    [[nodiscard]] Bits value() const {
      return {is_null_ ? 0 : reinterpret_cast<std::uint64_t>(slots_.data())};
    }
    void after(Turn& turn, bool succeeded) const;

   private:
    std::vector<std::uint64_t> slots_;
    std::optional<Kind> kind_;
    bool is_null_;
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return {turn, kind}; }
};
inline constexpr ArrayOut array_out{};
constexpr ArrayOut handles_out(Kind kind) {
  return {kind};
}

/// A number that says how much room there is in such an array, and is overwritten with how much was
/// found, also where that was too much.
template <class T>
struct Length {
  [[nodiscard]] Result draw(Turn& turn) const {
    Result drawn(turn, {}, true);
    drawn.set(static_cast<T>(turn.bytes.byte() % (kArrayRoom + 1)));
    return drawn;
  }
};
template <class T>
inline constexpr Length<T> length{};

/// Handles for a function to read, and how many; the latter may be far too large, but never so that
/// a function which believes it reads a little too far.
struct HandlesIn {
  Kind kind;

  struct Drawn {
    std::vector<std::uint64_t> handles;
    [[nodiscard]] Bits value() const {
      return {handles.empty() ? 0 : reinterpret_cast<std::uint64_t>(handles.data())};
    }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
constexpr HandlesIn handles_in(Kind kind) {
  return {kind};
}
struct HandlesCount {
  [[nodiscard]] Number::Drawn draw(Turn& turn) const;
};
inline constexpr HandlesCount handles_count{};

/// An array of nodes that belongs to the simulator, and how many: all of it can be read.
struct BorrowedNodes {
  struct Drawn : Result {
    explicit Drawn(Turn& turn) : Result(turn) {}
    void after(Turn& turn, bool succeeded);
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return Drawn(turn); }
};
inline constexpr BorrowedNodes borrowed_nodes{};
struct BorrowedCount {
  struct Drawn : Result {
    explicit Drawn(Turn& turn) : Result(turn) {}
    void after(Turn& turn, bool succeeded);
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return Drawn(turn); }
};
inline constexpr BorrowedCount borrowed_count{};

/// A structure for a function to read, or null.
template <class T>
struct Read {
  T content;
  bool is_null;

  [[nodiscard]] T* value() { return is_null ? nullptr : &content; }
  static void after(Turn&, bool) {}
};

struct Location {
  struct Drawn {
    CUmemLocation location;
    bool is_null;
    [[nodiscard]] CUmemLocation* value() { return is_null ? nullptr : &location; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr Location location{};

/// The same by value.
struct LocationValue {
  struct Drawn {
    CUmemLocation location;
    [[nodiscard]] CUmemLocation value() const { return location; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return {Location{}.draw(turn).location}; }
};
inline constexpr LocationValue location_value{};

/// Two of each that cuMemRangeGetAttributes takes.
struct RangeData {
  struct Drawn {
    std::array<std::array<int, 4>, 2> results;
    std::array<void*, 2> data;
    [[nodiscard]] void** value() {
      data = {results[0].data(), results[1].data()};
      return data.data();
    }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn&) const { return {}; }
};
inline constexpr RangeData range_data{};
struct RangeSizes {
  struct Drawn {
    std::array<std::size_t, 2> sizes;
    [[nodiscard]] std::size_t* value() { return sizes.data(); }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return {{4, turn.bytes.byte() % 17U}}; }
};
inline constexpr RangeSizes range_sizes{};
struct RangeAttributes {
  struct Drawn {
    std::array<CUmem_range_attribute, 2> attributes;
    [[nodiscard]] CUmem_range_attribute* value() { return attributes.data(); }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const {
    return {{static_cast<CUmem_range_attribute>(turn.bytes.byte() % 10),
             CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY}};
  }
};
inline constexpr RangeAttributes range_attributes{};

/// Behind a void*, for a function to read.
struct ValueIn {
  struct Drawn {
    std::uint64_t content;
    bool is_null;
    [[nodiscard]] Bits value() const {
      return {is_null ? 0 : reinterpret_cast<std::uint64_t>(&content)};
    }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr ValueIn value_in{};

struct PoolProperties {
  [[nodiscard]] Read<CUmemPoolProps> draw(Turn& turn) const;
};
inline constexpr PoolProperties pool_properties{};

/// A descriptor of a file, behind a void*; the test closes it in the end.
struct DescriptorOut {
  struct Drawn : Result {
    explicit Drawn(Turn& turn) : Result(turn) {}
    void after(Turn& turn, bool succeeded);
  };
  [[nodiscard]] Drawn draw(Turn& turn) const { return Drawn(turn); }
};
inline constexpr DescriptorOut descriptor_out{};

/// Sixty-four bytes that no other process gave.
struct IpcMemory {
  struct Drawn {
    CUipcMemHandle handle;
    [[nodiscard]] CUipcMemHandle value() const { return handle; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const {
    Drawn drawn{};
    for (char& byte : drawn.handle.reserved) byte = static_cast<char>(turn.bytes.byte());
    return drawn;
  }
};
inline constexpr IpcMemory ipc_memory{};

struct AllocationProperties {
  [[nodiscard]] Read<CUmemAllocationProp> draw(Turn& turn) const;
};
inline constexpr AllocationProperties allocation_properties{};

struct Uuid {
  [[nodiscard]] Read<CUuuid> draw(Turn& turn) const { return {{}, turn.bytes.byte() >= kNull}; }
};
inline constexpr Uuid uuid{};

/// One or two, and capacity says how many.
struct AccessList {
  struct Drawn {
    std::array<CUmemAccessDesc, 2> list;
    bool is_null;
    [[nodiscard]] const CUmemAccessDesc* value() const { return is_null ? nullptr : list.data(); }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr AccessList access_list{};

/// What an executable graph is made with, and what the call says of it.
struct Instantiation {
  struct Drawn {
    CUDA_GRAPH_INSTANTIATE_PARAMS params;
    bool is_null;
    [[nodiscard]] CUDA_GRAPH_INSTANTIATE_PARAMS* value() { return is_null ? nullptr : &params; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr Instantiation instantiation{};

/// What a node is to allocate; its address is memory from then on.
struct GraphAllocation {
  struct Drawn {
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    AccessList::Drawn access;
    bool is_null;
    [[nodiscard]] CUDA_MEM_ALLOC_NODE_PARAMS* value();
    void after(Turn& turn, bool succeeded) const;
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr GraphAllocation graph_allocation{};

struct CaptureMode {
  struct Drawn {
    CUstreamCaptureMode mode;
    bool is_null;
    [[nodiscard]] CUstreamCaptureMode* value() { return is_null ? nullptr : &mode; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr CaptureMode capture_mode_in_out{};

/// A function that does nothing, one that calls the driver, which must refuse, or null.
struct HostFunction {
  struct Drawn {
    CUhostFn function;
    [[nodiscard]] CUhostFn value() const { return function; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const;
};
inline constexpr HostFunction host_function{};

/// A node that calls such a function.
struct HostNode {
  struct Drawn {
    CUDA_HOST_NODE_PARAMS params;
    [[nodiscard]] const CUDA_HOST_NODE_PARAMS* value() const { return &params; }
    static void after(Turn&, bool) {}
  };
  [[nodiscard]] Drawn draw(Turn& turn) const {
    return {.params = {.fn = host_function.draw(turn).value(), .userData = nullptr}};
  }
};
inline constexpr HostNode host_node{};

}  // namespace berth::fuzz
