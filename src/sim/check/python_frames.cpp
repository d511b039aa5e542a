// SPDX-License-Identifier: Apache-2.0
#include "sim/check/python_frames.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/check/python_functions.hpp"

namespace berth::sim {
namespace {

struct PythonThread;  // of Python's

// Python's public functions, and a type. Those before the blank line need no lock.
#define BERTH_PYTHON_FRAME_FUNCTIONS(X)                             \
  X(Py_IsInitialized, int())                                        \
  X(Py_GetVersion, const char*())                                   \
  X(Py_AddPendingCall, int(int (*)(void*), void*))                  \
  X(PyGILState_GetThisThreadState, PythonThread*())                 \
  X(PyCode_Addr2Line, int(const std::byte*, int))                   \
  X(PyUnicode_GetLength, std::ptrdiff_t(const void*))               \
  X(PyUnicode_ReadChar, std::uint32_t(const void*, std::ptrdiff_t)) \
                                                                    \
  X(Py_CompileString, PythonObject*(const char*, const char*, int)) \
  X(PyObject_GetAttrString, PythonObject*(void*, const char*))      \
  X(PyLong_AsLong, long(PythonObject*))                             \
  X(PyThreadState_GetFrame, PythonObject*(PythonThread*))           \
  X(PyFrame_GetCode, PythonObject*(PythonObject*))                  \
  X(PyFrame_GetBack, PythonObject*(PythonObject*))                  \
  X(PyFrame_GetLineNumber, int(PythonObject*))                      \
  X(PyErr_Clear, void())                                            \
  X(Py_DecRef, void(PythonObject*))                                 \
  X(PyCode_Type, void)

BERTH_PYTHON_FUNCTIONS(PythonFrameFunctions, BERTH_PYTHON_FRAME_FUNCTIONS)

/// Places of members, in bytes.
struct PythonLayout {
  // Of a thread's state: its innermost frame, or a pointer to what has that at `via`.
  std::size_t frame;
  std::optional<std::size_t> via;
  // Of a frame.
  std::size_t code;
  std::size_t previous;
  std::optional<std::size_t> owner = std::nullopt;  ///< where a frame of the interpreter has code
  std::size_t instruction = 56;
  // Of a code object.
  std::size_t file = 0;
  std::size_t function = 0;
  std::size_t instructions = 0;
};

/// Of the frame in the object that Python's functions give out for it.
constexpr std::size_t kFrameInObject = 24;
constexpr std::size_t kTypeInObject = 8;

// Written once, before there are threads or by those that load a library.
PythonFrameFunctions python;
bool has_python = false;
PythonLayout compared_layout;
std::atomic<bool> compared = false;

const std::byte* pointer_at(const void* start, std::size_t offset) {
  const std::byte* value = nullptr;
  std::memcpy(&value, static_cast<const std::byte*>(start) + offset, sizeof value);
  return value;
}

/// A reference to an object that ends with the scope.
class PythonReference {
 public:
  explicit PythonReference(PythonObject* object) : object_(object) {}
  ~PythonReference() {
    if (object_ != nullptr) python.Py_DecRef(object_);
  }
  PythonReference(const PythonReference&) = delete;
  PythonReference& operator=(const PythonReference&) = delete;

  PythonObject* get() const { return object_; }
  void reset(PythonObject* object) {
    if (object_ != nullptr) python.Py_DecRef(object_);
    object_ = object;
  }

 private:
  PythonObject* object_;
};

const std::byte* innermost_frame(const PythonThread* thread, const PythonLayout& layout) {
  const std::byte* const frame = pointer_at(thread, layout.frame);
  return layout.via ? pointer_at(frame, *layout.via) : frame;
}

/// The code of a frame; null for a frame of the interpreter's own.
const std::byte* code_of(const std::byte* frame, const PythonLayout& layout) {
  constexpr std::byte kInterpreter{3};
  if (layout.owner && frame[*layout.owner] == kInterpreter) return nullptr;
  // Since 3.14 the lowest bits say how the frame holds its code.
  const auto tagged = reinterpret_cast<std::uintptr_t>(pointer_at(frame, layout.code));
  const auto* const code = reinterpret_cast<const std::byte*>(tagged & ~std::uintptr_t{7});
  if (code == nullptr || pointer_at(code, kTypeInObject) != python.PyCode_Type) return nullptr;
  return code;
}

int line_of(const std::byte* code, const std::byte* instruction, const PythonLayout& layout) {
  return python.PyCode_Addr2Line(code, static_cast<int>(instruction - code - layout.instructions));
}

std::string text_of(const void* string) {
  std::string text;
  const std::ptrdiff_t length = python.PyUnicode_GetLength(string);
  for (std::ptrdiff_t i = 0; i < length; ++i) {
    const std::uint32_t c = python.PyUnicode_ReadChar(string, i);
    const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
    const auto follow = [&](int shift) { put(0x80 | (c >> shift & 0x3f)); };
    if (c < 0x80) {
      put(c);
    } else if (c < 0x800) {
      put(0xc0 | c >> 6), follow(0);
    } else if (c < 0x10000) {
      put(0xe0 | c >> 12), follow(6), follow(0);
    } else {
      put(0xf0 | c >> 18), follow(12), follow(6), follow(0);
    }
  }
  return text;
}

bool is_of_program(std::string_view file) {
  if (file.starts_with("<")) return false;
  for (const std::string_view folder : {"/site-packages/", "/dist-packages/", "/lib/python3"})
    if (file.find(folder) != file.npos) return false;
  return true;
}

/// Where the code object has a pointer to its attribute; 0 where it has none.
std::size_t find_attribute(PythonObject* code, const char* name, std::size_t bytes) {
  const PythonReference value(python.PyObject_GetAttrString(code, name));
  if (value.get() == nullptr) return 0;
  for (std::size_t at = 2 * sizeof(void*); at + sizeof(void*) <= bytes; at += sizeof(void*))
    if (pointer_at(code, at) == static_cast<const void*>(value.get())) return at;
  return 0;
}

/// The places within a code object.
bool find_code_members(PythonLayout& layout) {
  const PythonReference size(python.PyObject_GetAttrString(python.PyCode_Type, "__basicsize__"));
  if (size.get() == nullptr) return false;
  layout.instructions = static_cast<std::size_t>(python.PyLong_AsLong(size.get()));
  constexpr int kFileInput = 257;
  const PythonReference code(python.Py_CompileString("0", "a file of its own", kFileInput));
  if (code.get() == nullptr) return false;
  layout.file = find_attribute(code.get(), "co_filename", layout.instructions);
  layout.function = find_attribute(code.get(), "co_name", layout.instructions);
  return layout.file != 0 && layout.function != 0;
}

/// Since 3.13 the state of a thread points to its frame itself, at a place that varies.
bool find_frame_in_thread(PythonLayout& layout, const PythonThread* thread,
                          const std::byte* innermost) {
  if (layout.via) return true;
  constexpr std::size_t kStateBytes = 200;  // no version has less
  for (layout.frame = 0; layout.frame < kStateBytes; layout.frame += sizeof(void*))
    if (pointer_at(thread, layout.frame) == innermost) return true;
  return false;
}

/// Whether memory has the same frames as Python's functions tell of.
bool has_same_frames(const PythonThread* thread, PythonObject* innermost,
                     const PythonLayout& layout) {
  const std::byte* frame = innermost_frame(thread, layout);
  PythonReference told(innermost);
  while (frame != nullptr) {
    if (const std::byte* const code = code_of(frame, layout)) {
      if (told.get() == nullptr) return false;
      const PythonReference told_code(python.PyFrame_GetCode(told.get()));
      if (code != static_cast<const void*>(told_code.get())) return false;
      const int line = line_of(code, pointer_at(frame, layout.instruction), layout);
      if (line != python.PyFrame_GetLineNumber(told.get())) return false;
      told.reset(python.PyFrame_GetBack(told.get()));
    }
    frame = pointer_at(frame, layout.previous);
  }
  return told.get() == nullptr;
}

std::optional<PythonLayout> layout_of(std::string_view version) {
  if (version.find("free-threading") != std::string_view::npos) return std::nullopt;
  if (version.starts_with("3.11."))
    return PythonLayout{.frame = 56, .via = 8, .code = 32, .previous = 48};
  if (version.starts_with("3.12."))
    return PythonLayout{.frame = 56, .via = 0, .code = 0, .previous = 8, .owner = 70};
  if (version.starts_with("3.13.") || version.starts_with("3.14."))
    return PythonLayout{.frame = 0, .via = std::nullopt, .code = 0, .previous = 8};
  return std::nullopt;
}

/// On Python's main thread, with its lock.
int compare(void*) {
  PythonLayout layout = *layout_of(python.Py_GetVersion());
  PythonThread* const thread = python.PyGILState_GetThisThreadState();
  PythonObject* const innermost =
      thread == nullptr ? nullptr : python.PyThreadState_GetFrame(thread);
  if (innermost != nullptr && find_code_members(layout) &&
      find_frame_in_thread(layout, thread, pointer_at(innermost, kFrameInObject)) &&
      has_same_frames(thread, innermost, layout)) {
    compared_layout = layout;
    compared.store(true, std::memory_order_release);
  }
  python.PyErr_Clear();
  return 0;
}

[[gnu::constructor]] void find_python() {
  has_python = python.load();
}

void ask_to_compare() {
  if (!has_python || python.Py_IsInitialized() == 0) return;
  if (layout_of(python.Py_GetVersion())) python.Py_AddPendingCall(compare, nullptr);
}

}  // namespace

PythonFrames::PythonFrames(bool on) {
  static bool has_asked = false;  // guarded by sim::mutex
  if (!on || has_asked) return;
  has_asked = true;
  ask_to_compare();
}

void PythonFrames::take(std::vector<const PythonPlace*>& places, std::size_t frames) {
  if (!compared.load(std::memory_order_acquire)) return;
  const PythonThread* const thread = python.PyGILState_GetThisThreadState();
  if (thread == nullptr) return;
  const std::byte* frame = innermost_frame(thread, compared_layout);
  bool has_program = false;
  while (frame != nullptr && (places.size() < frames || !has_program)) {
    if (const std::byte* const code = code_of(frame, compared_layout)) {
      const PythonPlace* const place = find(code, pointer_at(frame, compared_layout.instruction));
      if (places.size() < frames || place->is_programs) places.push_back(place);
      has_program = has_program || place->is_programs;
    }
    frame = pointer_at(frame, compared_layout.previous);
  }
}

const PythonPlace* PythonFrames::find(const std::byte* code, const std::byte* instruction) {
  const void* const file = pointer_at(code, compared_layout.file);
  const void* const function = pointer_at(code, compared_layout.function);
  Known& known = known_[{code, instruction}];
  if (known.place != nullptr && known.file == file && known.function == function)
    return known.place.get();
  if (known.place != nullptr) gone_.push_back(std::move(known.place));
  std::string path = text_of(file);
  const bool is_programs = is_of_program(path);
  known = {file, function,
           std::make_unique<PythonPlace>(PythonPlace{std::move(path),
                                                     line_of(code, instruction, compared_layout),
                                                     text_of(function), is_programs})};
  return known.place.get();
}

}  // namespace berth::sim
