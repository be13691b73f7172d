// Two lists of oneDNN primitives, forward and backward, built once and then only executed; and the memory
// they work on. The mechanics of the oneDNN back end, ignorant of layers. Private to onednn*.cc and
// layers/<kind>/onednn.cc.
//
// Parameters and gradient stay the caller's flat vectors: a "window" is a row-major memory that points into
// one, and is pointed anew at each step. A primitive that prefers another format gets a reorder in front of
// it, or after.
//
// What is made here has no memory of its own before finish(): it lives from the first call that uses it to the last
// one, of both lists, and shares one arena with what lives at other times (arena_layout.h). So a difference lies where
// an activation was that nothing reads any more, and every primitive has the same scratchpad.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <functional>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/network/network.h"
#include "worker/model/arena_layout.h"
#include "worker/model/norm_group.h"
#include "worker/model/onednn_describe.h"

namespace paceline::onednn {

using Arguments = std::unordered_map<int, memory>;

// Dropout's primitives are left out of an evaluation; batch norm has some of its own there.
enum class When { kAlways, kTraining, kEvaluation };

using Type = memory::data_type;

// The library chooses the format.
inline memory::desc any(const Dims& dims, Type type) { return {dims, type, memory::format_tag::any}; }

// The row-major format.
inline memory::desc plain(const Dims& dims, Type type = Type::f32) {
  using Tag = memory::format_tag;
  constexpr Tag kTags[] = {Tag::undef, Tag::a, Tag::ab, Tag::abc, Tag::abcd, Tag::abcde};
  return {dims, type, kTags[dims.size()]};
}

// The same format with floats; row-major where it is an unusual one.
inline memory::desc widened(const memory::desc& desc) {
  using Tag = memory::format_tag;
  const Dims dims = dims_of(desc);
  if (dims.size() == 4) {
    for (const Tag tag : {Tag::nChw16c, Tag::nChw8c, Tag::nhwc}) {
      if (desc == memory::desc(dims, Type::bf16, tag)) return {dims, Type::f32, tag};
    }
  }
  return plain(dims);
}

inline float* floats_of(const memory& target) { return static_cast<float*>(target.get_data_handle()); }

// Thread: the one that made it. Every member may throw dnnl::error.
class Program {
 public:
  enum class Pass { kForward, kBackward };

  // `products`: what convolutions and dense layers multiply, and so what lies between the layers: f32 or bf16.
  // Parameters, their gradients and statistics are f32 with both.
  explicit Program(Type products)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_), products_(products) {}

  Type products() const { return products_; }

  const dnnl::engine& engine() const { return engine_; }

  // Null: a batch_norm goes by the mini-batch's own values.
  void set_norm_group(NormGroup* group) { norm_group_ = group; }
  NormGroup* norm_group() const { return norm_group_; }

  // Memory that lives as long as what uses it, unbound until finish(). What is in it at first, and what other calls
  // leave there, is anything.
  memory make(const memory::desc& desc) {
    const memory made = make_unbound(desc);
    buffer_of_.emplace(made.get(), buffers_.size());
    buffers_.push_back({{made}, desc.get_size(), {}, {}});
    return made;
  }
  // Memory of its own, bound, in which nothing else ever lies.
  memory make_lasting(const memory::desc& desc) const { return memory(desc, engine_); }
  // A memory without memory, for set_data_handle.
  memory make_unbound(const memory::desc& desc) const { return memory(desc, engine_, nullptr); }

  // When somebody else writes or reads what make() made: between the passes, not within one.
  enum class Moment { kBefore, kBetween, kAfter };
  void used_by_caller(const memory& value, Moment moment) {
    constexpr Stretch kStretches[] = {Stretch::kBefore, Stretch::kBetween, Stretch::kAfter};
    use(value, {kStretches[static_cast<std::size_t>(moment)], 0});
  }
  // Whether both are views of what make() made once.
  bool same_place(const memory& a, const memory& b) const {
    const auto first = buffer_of_.find(a.get());
    const auto second = buffer_of_.find(b.get());
    if (first == buffer_of_.end() || second == buffer_of_.end()) return a.get() == b.get();
    return first->second == second->second;
  }
  // After finish(): of all that make() made. It is held from then on, whether a pass runs or not.
  std::int64_t arena_bytes() const { return arena_bytes_; }

  template <typename Primitive>
  void append(Pass pass, const typename Primitive::primitive_desc& desc, Arguments arguments,
              When when = When::kAlways) {
    const memory::desc scratchpad = desc.scratchpad_desc();
    if (scratchpad.get_size() > 0) arguments.emplace(DNNL_ARG_SCRATCHPAD, make(scratchpad));
    for (const auto& [index, argument] : arguments) use(argument, next(pass));
    calls(pass).push_back({Primitive(desc), std::move(arguments), when, {}});
  }

  // A loop of ours between the primitives. `used`: all that it reads or writes of what make() made.
  void append_loop(Pass pass, std::initializer_list<std::span<const memory>> used, std::function<void()> loop,
                   When when = When::kAlways) {
    for (const std::span<const memory> several : used) {
      for (const memory& each : several) use(each, next(pass));
    }
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

  // What `whole`, of make(), has, as `desc` says: a part of it, or with other dimensions.
  memory view(const memory& whole, const memory::desc& desc) {
    const std::size_t buffer = buffer_of_.at(whole.get());
    const memory seen = make_unbound(desc);
    buffer_of_.emplace(seen.get(), buffer);
    buffers_[buffer].views.push_back(seen);
    return seen;
  }

  // `value` with as many floats in other dimensions: itself where they are the same, else row-major.
  memory shaped(Pass pass, const memory& value, const Dims& dims) {
    if (dims_of(value.get_desc()) == dims) return value;
    memory rows = value;
    const memory::desc row_major = plain(dims_of(value.get_desc()));
    // What is bound by others cannot be viewed.
    if (value.get_desc() != row_major || !buffer_of_.contains(value.get())) {
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

  // Whether a layer after this one has made a gradient of `range`, to which this one's must be added. Call it once for
  // each.
  bool adds_to_gradient(const ParameterRange& range) { return !with_gradient_.insert(range.offset).second; }

  // After the last append: binds all that make() made.
  void finish() {
    const auto step_of = [this](const Position& at) {
      const std::size_t passed[] = {0, 1, 1 + forward_.size(), 2 + forward_.size(),
                                    2 + forward_.size() + backward_.size()};
      return passed[static_cast<std::size_t>(at.first)] + at.second;
    };
    std::vector<Lifetime> lifetimes;
    for (const Buffer& buffer : buffers_) {
      lifetimes.push_back(buffer.first ? Lifetime{buffer.bytes, step_of(*buffer.first), step_of(*buffer.last)}
                                       : Lifetime{});
    }
    const ArenaLayout layout = lay_out(lifetimes);
    arena_bytes_ = static_cast<std::int64_t>(layout.bytes);
    if (layout.bytes == 0) return;
    arena_ = make_lasting(
        {{static_cast<memory::dim>(layout.bytes)}, memory::data_type::u8, memory::format_tag::a});
    auto* const begin = static_cast<std::byte*>(arena_.get_data_handle());
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      for (memory& view : buffers_[i].views) view.set_data_handle(begin + layout.offsets[i]);
    }
  }

  // `parameters` is only read; the library takes its inputs as void*, too.
  void point_parameters(const float* parameters) { point(parameters_, const_cast<float*>(parameters)); }
  void point_gradient(float* gradient) { point(gradients_, gradient); }

  // What has been appended to the backward pass makes the gradient from `begin` on, and nothing after it
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

  enum class Stretch { kBefore, kForward, kBetween, kBackward, kAfter };
  using Position = std::pair<Stretch, std::size_t>;  // and which call of a pass
  struct Buffer {
    std::vector<memory> views;  // of all of it, or of parts
    std::size_t bytes;
    std::optional<Position> first;  // none: nobody uses it
    std::optional<Position> last;
  };

  // Of the call that is appended next.
  Position next(Pass pass) {
    return {pass == Pass::kForward ? Stretch::kForward : Stretch::kBackward, calls(pass).size()};
  }
  void use(const memory& value, const Position& at) {
    const auto found = buffer_of_.find(value.get(true));  // which may be empty
    if (found == buffer_of_.end()) return;
    Buffer& buffer = buffers_[found->second];
    buffer.first = buffer.first ? std::min(*buffer.first, at) : at;
    buffer.last = buffer.last ? std::max(*buffer.last, at) : at;
  }

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
  const Type products_;
  NormGroup* norm_group_ = nullptr;
  std::vector<Call> forward_;
  std::vector<Call> backward_;
  std::vector<Pointer> parameters_;
  std::vector<Pointer> gradients_;
  std::vector<Buffer> buffers_;
  std::unordered_map<dnnl_memory_t, std::size_t> buffer_of_;  // by memory
  std::set<std::int64_t> with_gradient_;                      // offsets
  memory arena_;
  std::int64_t arena_bytes_ = 0;
};

}  // namespace paceline::onednn
