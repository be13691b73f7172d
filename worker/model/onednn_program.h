// Two lists of oneDNN primitives, forward and backward, built once and then only executed; and the memory
// they work on. The mechanics of the oneDNN back end, ignorant of layers. Private to onednn*.cc and
// layers/<kind>/onednn.cc.
//
// Parameters and gradient stay the caller's flat vectors: a "window" is a row-major memory that points into
// one, and is pointed anew at each step. A primitive that prefers another format gets a reorder in front of
// it, or behind.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/network/network.h"
#include "worker/model/norm_group.h"
#include "worker/model/onednn_describe.h"

namespace paceline::onednn {

using Arguments = std::unordered_map<int, memory>;

// Dropout's primitives are left out of an evaluation; batch norm has some of its own there.
enum class When { kAlways, kTraining, kEvaluation };

// The library chooses the format.
inline memory::desc any(const Dims& dims) { return {dims, memory::data_type::f32, memory::format_tag::any}; }

// The row-major format.
inline memory::desc plain(const Dims& dims) {
  using Tag = memory::format_tag;
  constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  return {dims, memory::data_type::f32, kTags[dims.size()]};
}

inline float* floats_of(const memory& target) { return static_cast<float*>(target.get_data_handle()); }

// Thread: the one that made it. Every member may throw dnnl::error.
class Program {
 public:
  enum class Pass { kForward, kBackward };

  Program() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }

  // Null: a batch_norm goes by the mini-batch's own values.
  void set_norm_group(NormGroup* group) { norm_group_ = group; }
  NormGroup* norm_group() const { return norm_group_; }

  memory make(const memory::desc& desc) const { return memory(desc, engine_); }
  // A memory without memory, for set_data_handle.
  memory make_unbound(const memory::desc& desc) const { return memory(desc, engine_, nullptr); }

  // Every primitive computes in the one arena.
  template <typename Primitive>
  void append(Pass pass, const typename Primitive::primitive_desc& desc, Arguments arguments,
              When when = When::kAlways) {
    const memory::desc scratchpad = desc.scratchpad_desc();
    if (scratchpad.get_size() > 0) {
      scratchpads_.push_back(make_unbound(scratchpad));
      arena_bytes_ = std::max(arena_bytes_, scratchpad.get_size());
      arguments.emplace(DNNL_ARG_SCRATCHPAD, scratchpads_.back());
    }
    calls(pass).push_back({Primitive(desc), std::move(arguments), when, {}});
  }

  // A loop of ours between the primitives.
  void append_loop(Pass pass, std::function<void()> loop, When when = When::kAlways) {
    calls(pass).push_back({{}, {}, when, std::move(loop)});
  }

  void append_reorder(Pass pass, const memory& from, const memory& to, When when = When::kAlways) {
    append<dnnl::reorder>(pass, dnnl::reorder::primitive_desc(from, to, attributes()),
                          {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, when);
  }

  // `value` in format `wanted`: itself, or a copy that a reorder fills.
  memory in_format(Pass pass, const memory& value, const memory::desc& wanted) {
    if (value.get_desc() == wanted) return value;
    memory copy = make(wanted);
    append_reorder(pass, value, copy);
    return copy;
  }

  // The floats of `whole`, which are bound, as `desc` says: a part of them, or with other dimensions.
  memory view(const memory& whole, const memory::desc& desc) {
    viewed_.push_back(whole);
    return memory(desc, engine_, whole.get_data_handle());
  }

  // `value` with as many floats in other dimensions: itself where they are the same, else row-major.
  memory shaped(Pass pass, const memory& value, const Dims& dims) {
    if (dims_of(value.get_desc()) == dims) return value;
    memory rows = value;
    const memory::desc row_major = plain(dims_of(value.get_desc()));
    // What is bound anew at each step cannot be viewed.
    if (value.get_desc() != row_major || value.get_data_handle() == nullptr) {
      rows = make(row_major);
      append_reorder(pass, value, rows);
    }
    return view(rows, plain(dims));
  }

  // sum += addend
  void append_sum(Pass pass, const memory& sum, const memory& addend) {
    const memory read = in_format(pass, addend, sum.get_desc());
    append<dnnl::binary>(
        pass, describe::binary(engine_, dnnl::algorithm::binary_add, sum.get_desc(), read.get_desc()),
        {{DNNL_ARG_SRC_0, sum}, {DNNL_ARG_SRC_1, read}, {DNNL_ARG_DST, sum}});
  }

  memory parameter(const ParameterRange& range, const Dims& dims) { return window(parameters_, range, dims); }
  memory gradient(const ParameterRange& range, const Dims& dims) { return window(gradients_, range, dims); }

  // Whether a layer behind this one has made a gradient of `range`, to which this one's must be added. Call it once for
  // each.
  bool adds_to_gradient(const ParameterRange& range) { return !with_gradient_.insert(range.offset).second; }

  // After the last append: one arena for all, as primitives run one after another.
  void finish() {
    if (arena_bytes_ == 0) return;
    arena_ = make({{static_cast<memory::dim>(arena_bytes_)}, memory::data_type::u8, memory::format_tag::a});
    for (memory& scratchpad : scratchpads_) scratchpad.set_data_handle(arena_.get_data_handle());
  }

  // `parameters` is only read; the library takes its inputs as void*, too.
  void point_parameters(const float* parameters) { point(parameters_, const_cast<float*>(parameters)); }
  void point_gradient(float* gradient) { point(gradients_, gradient); }

  // What has been appended to the backward pass makes the gradient from `begin` on, and nothing behind it
  // changes that.
  void mark_final(std::int64_t begin) { backward_.back().final_from = begin; }

  // `when`: kTraining or kEvaluation. `final_from` is called with what was marked as soon as it is computed.
  void run(Pass pass, When when, const std::function<void(std::int64_t)>& final_from) {
    for (const Call& call : calls(pass)) {
      if (call.when == When::kAlways || call.when == when) execute(call);
      if (!call.final_from) continue;
      stream_.wait();
      final_from(*call.final_from);
    }
    stream_.wait();
  }

 private:
  struct Call {
    dnnl::primitive primitive;
    Arguments arguments;
    When when;
    std::function<void()> loop;  // instead of the primitive
    std::optional<std::int64_t> final_from = {};
  };
  struct Pointer {
    memory target;
    std::int64_t offset;
  };

  void execute(const Call& call) {
    if (!call.loop) return call.primitive.execute(stream_, call.arguments);
    stream_.wait();
    call.loop();
  }

  std::vector<Call>& calls(Pass pass) { return pass == Pass::kForward ? forward_ : backward_; }

  memory window(std::vector<Pointer>& windows, const ParameterRange& range, const Dims& dims) {
    windows.push_back({make_unbound(plain(dims)), range.offset});
    return windows.back().target;
  }
  static void point(std::vector<Pointer>& windows, float* vector) {
    for (Pointer& pointer : windows) pointer.target.set_data_handle(vector + pointer.offset);
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  NormGroup* norm_group_ = nullptr;
  std::vector<Call> forward_;
  std::vector<Call> backward_;
  std::vector<Pointer> parameters_;
  std::vector<Pointer> gradients_;
  std::vector<memory> scratchpads_;
  std::vector<memory> viewed_;            // kept for as long as the views of them
  std::set<std::int64_t> with_gradient_;  // offsets
  std::size_t arena_bytes_ = 0;
  memory arena_;
};

}  // namespace paceline::onednn
