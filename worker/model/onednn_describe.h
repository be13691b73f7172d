// What oneDNN's primitives are to compute, written once for its versions 2 (Debian 12) and 3 (Debian 13), which take
// the same in another order, and some memories that version 2 infers. Private to onednn*.cc and
// layers/<kind>/onednn.cc.
//
// Every primitive has its scratchpad from the program. `forward`: the description of the forward primitive whose
// backward pass it is. Every function may throw dnnl::error.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <vector>

namespace paceline::onednn {

using dnnl::memory;
using Dims = memory::dims;

// The padding before and after an image, and the rest of a sliding window, in pixels.
struct Window {
  Dims strides{};
  Dims kernel{};
  Dims before{};
  Dims after{};
};

// Local response normalisation.
struct LocalResponse {
  dnnl::algorithm region{};
  std::int64_t size = 0;
  float alpha = 0.0F;
  float beta = 0.0F;
  float k = 0.0F;
};

// A fresh attribute each time: they are copied shallowly.
inline dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

#if DNNL_VERSION_MAJOR >= 3

inline Dims dims_of(const memory::desc& desc) { return desc.get_dims(); }
inline memory::data_type type_of(const memory& value) { return value.get_desc().get_data_type(); }

namespace describe {

inline void append_relu(dnnl::post_ops& to) { to.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F); }

template <typename Primitive, typename... What>
typename Primitive::primitive_desc primitive(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                             const What&... what) {
  return {engine, what..., attr};
}

template <typename Primitive, typename Forward, typename... What>
typename Primitive::primitive_desc backward(const dnnl::engine& engine, const Forward& forward,
                                            const What&... what) {
  return {engine, what..., forward, attributes()};
}

inline auto eltwise(const dnnl::engine& engine, dnnl::algorithm function, const memory::desc& desc,
                    float alpha = 0.0F) {
  return primitive<dnnl::eltwise_forward>(engine, attributes(), dnnl::prop_kind::forward_training, function,
                                          desc, desc, alpha, 0.0F);
}
inline auto eltwise_backward(const dnnl::engine& engine, const dnnl::eltwise_forward::primitive_desc& forward,
                             dnnl::algorithm function, const memory::desc& desc) {
  return backward<dnnl::eltwise_backward>(engine, forward, function, desc, desc, desc, 0.0F, 0.0F);
}

inline auto pool(const dnnl::engine& engine, dnnl::algorithm kind, const memory::desc& source,
                 const memory::desc& out, const Window& window) {
  return primitive<dnnl::pooling_forward>(engine, attributes(), dnnl::prop_kind::forward_training, kind,
                                          source, out, window.strides, window.kernel, Dims{0, 0},
                                          window.before, window.after);
}
inline auto pool_backward(const dnnl::engine& engine, const dnnl::pooling_forward::primitive_desc& forward,
                          dnnl::algorithm kind, const memory::desc& source, const memory::desc& out,
                          const Window& window) {
  return backward<dnnl::pooling_backward>(engine, forward, kind, source, out, window.strides, window.kernel,
                                          Dims{0, 0}, window.before, window.after);
}

inline auto norm(const dnnl::engine& engine, dnnl::prop_kind pass, const memory::desc& desc, float epsilon,
                 dnnl::normalization_flags flags) {
  return primitive<dnnl::batch_normalization_forward>(engine, attributes(), pass, desc, desc, epsilon, flags);
}
inline auto norm_backward(const dnnl::engine& engine,
                          const dnnl::batch_normalization_forward::primitive_desc& forward,
                          const memory::desc& desc, float epsilon, dnnl::normalization_flags flags) {
  return backward<dnnl::batch_normalization_backward>(engine, forward, dnnl::prop_kind::backward, desc, desc,
                                                      desc, epsilon, flags);
}

inline auto lrn(const dnnl::engine& engine, const memory::desc& desc, const LocalResponse& of) {
  return primitive<dnnl::lrn_forward>(engine, attributes(), dnnl::prop_kind::forward_training, of.region,
                                      desc, desc, of.size, of.alpha, of.beta, of.k);
}
inline auto lrn_backward(const dnnl::engine& engine, const dnnl::lrn_forward::primitive_desc& forward,
                         const memory::desc& desc, const LocalResponse& of) {
  return backward<dnnl::lrn_backward>(engine, forward, of.region, desc, desc, desc, of.size, of.alpha,
                                      of.beta, of.k);
}

inline auto sum(const dnnl::engine& engine, const memory::desc& to, const std::vector<float>& coefficients,
                const std::vector<memory::desc>& of) {
  return dnnl::sum::primitive_desc(engine, to, coefficients, of, attributes());
}

}  // namespace describe

#else

inline Dims dims_of(const memory::desc& desc) { return desc.dims(); }
inline memory::data_type type_of(const memory& value) { return value.get_desc().data_type(); }

namespace describe {

inline void append_relu(dnnl::post_ops& to) {
  to.append_eltwise(1.0F, dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
}

template <typename Primitive, typename... What>
typename Primitive::primitive_desc primitive(const dnnl::engine& engine, const dnnl::primitive_attr& attr,
                                             const What&... what) {
  return {typename Primitive::desc(what...), attr, engine};
}

template <typename Primitive, typename Forward, typename... What>
typename Primitive::primitive_desc backward(const dnnl::engine& engine, const Forward& forward,
                                            const What&... what) {
  return {typename Primitive::desc(what...), attributes(), engine, forward};
}

inline auto eltwise(const dnnl::engine& engine, dnnl::algorithm function, const memory::desc& desc,
                    float alpha = 0.0F) {
  return primitive<dnnl::eltwise_forward>(engine, attributes(), dnnl::prop_kind::forward_training, function,
                                          desc, alpha, 0.0F);
}
inline auto eltwise_backward(const dnnl::engine& engine, const dnnl::eltwise_forward::primitive_desc& forward,
                             dnnl::algorithm function, const memory::desc& desc) {
  return backward<dnnl::eltwise_backward>(engine, forward, function, desc, desc, 0.0F, 0.0F);
}

inline auto pool(const dnnl::engine& engine, dnnl::algorithm kind, const memory::desc& source,
                 const memory::desc& out, const Window& window) {
  return primitive<dnnl::pooling_forward>(engine, attributes(), dnnl::prop_kind::forward_training, kind,
                                          source, out, window.strides, window.kernel, window.before,
                                          window.after);
}
inline auto pool_backward(const dnnl::engine& engine, const dnnl::pooling_forward::primitive_desc& forward,
                          dnnl::algorithm kind, const memory::desc& source, const memory::desc& out,
                          const Window& window) {
  return backward<dnnl::pooling_backward>(engine, forward, kind, source, out, window.strides, window.kernel,
                                          window.before, window.after);
}

inline auto norm(const dnnl::engine& engine, dnnl::prop_kind pass, const memory::desc& desc, float epsilon,
                 dnnl::normalization_flags flags) {
  return primitive<dnnl::batch_normalization_forward>(engine, attributes(), pass, desc, epsilon, flags);
}
inline auto norm_backward(const dnnl::engine& engine,
                          const dnnl::batch_normalization_forward::primitive_desc& forward,
                          const memory::desc& desc, float epsilon, dnnl::normalization_flags flags) {
  return backward<dnnl::batch_normalization_backward>(engine, forward, dnnl::prop_kind::backward, desc, desc,
                                                      epsilon, flags);
}

inline auto lrn(const dnnl::engine& engine, const memory::desc& desc, const LocalResponse& of) {
  return primitive<dnnl::lrn_forward>(engine, attributes(), dnnl::prop_kind::forward_training, of.region,
                                      desc, of.size, of.alpha, of.beta, of.k);
}
inline auto lrn_backward(const dnnl::engine& engine, const dnnl::lrn_forward::primitive_desc& forward,
                         const memory::desc& desc, const LocalResponse& of) {
  return backward<dnnl::lrn_backward>(engine, forward, of.region, desc, desc, of.size, of.alpha, of.beta,
                                      of.k);
}

inline auto sum(const dnnl::engine& engine, const memory::desc& to, const std::vector<float>& coefficients,
                const std::vector<memory::desc>& of) {
  return dnnl::sum::primitive_desc(to, coefficients, of, engine, attributes());
}

}  // namespace describe

#endif

// Of two memories, element by element, in place of `a`.
namespace describe {
inline auto binary(const dnnl::engine& engine, dnnl::algorithm function, const memory::desc& a,
                   const memory::desc& b) {
  return primitive<dnnl::binary>(engine, attributes(), function, a, b, a);
}
}  // namespace describe

}  // namespace paceline::onednn
