// The spelling of every choice in the configuration: one table per enum, used to read YAML, to write it, and
// wherever a choice is printed (logs, summary.json). Header-only, so that the pure core can use it too.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/assert.h"
#include "common/config/run_config.h"

namespace paceline {

template <typename E>
struct EnumNames;  // specialised below: `table` lists every value with its spelling

#define PACELINE_ENUM_NAMES(E, ...)                                                      \
  template <>                                                                            \
  struct EnumNames<E> {                                                                  \
    static constexpr auto table = std::to_array<std::pair<E, const char*>>(__VA_ARGS__); \
  }

PACELINE_ENUM_NAMES(PolicyKind, {{PolicyKind::kBsp, "bsp"},
                                 {PolicyKind::kAsp, "asp"},
                                 {PolicyKind::kSsp, "ssp"},
                                 {PolicyKind::kDtssp, "dtssp"},
                                 {PolicyKind::kRandomWalk, "random_walk"},
                                 {PolicyKind::kDssp, "dssp"},
                                 {PolicyKind::kBackup, "backup"},
                                 {PolicyKind::kSwitch, "switch"}});
PACELINE_ENUM_NAMES(ApplyMode, {{ApplyMode::kVersioned, "versioned"}, {ApplyMode::kEager, "eager"}});
PACELINE_ENUM_NAMES(PullOrder, {{PullOrder::kAuto, "auto"},
                                {PullOrder::kBeforePush, "before_push"},
                                {PullOrder::kAfterPush, "after_push"}});
PACELINE_ENUM_NAMES(CombineMode, {{CombineMode::kEach, "each"}, {CombineMode::kMean, "mean"}});
PACELINE_ENUM_NAMES(SharedMemory,
                    {{SharedMemory::kAuto, "auto"}, {SharedMemory::kOff, "off"}, {SharedMemory::kOn, "on"}});
PACELINE_ENUM_NAMES(LprMetric, {{LprMetric::kAccuracy, "accuracy"}, {LprMetric::kLoss, "loss"}});
PACELINE_ENUM_NAMES(Encoding, {{Encoding::kFp32, "fp32"},
                               {Encoding::kFp16, "fp16"},
                               {Encoding::kBf16, "bf16"},
                               {Encoding::kInt8, "int8"},
                               {Encoding::kTopK, "top_k"}});
PACELINE_ENUM_NAMES(ExchangeKind,
                    {{ExchangeKind::kServer, "server"}, {ExchangeKind::kAllreduce, "allreduce"}});
PACELINE_ENUM_NAMES(OnLoss, {{OnLoss::kGoOn, "go_on"}, {OnLoss::kStop, "stop"}});
PACELINE_ENUM_NAMES(schedule::Algorithm, {{schedule::Algorithm::kAuto, "auto"},
                                          {schedule::Algorithm::kRing, "ring"},
                                          {schedule::Algorithm::kHalvingDoubling, "halving_doubling"},
                                          {schedule::Algorithm::kBinaryBlocks, "binary_blocks"},
                                          {schedule::Algorithm::kTorus, "torus"},
                                          {schedule::Algorithm::kHierarchical, "hierarchical"},
                                          {schedule::Algorithm::kDirect, "direct"},
                                          {schedule::Algorithm::kTree, "tree"}});
PACELINE_ENUM_NAMES(schedule::PipelineKind, {{schedule::PipelineKind::kGpipe, "gpipe"},
                                             {schedule::PipelineKind::kOneForwardOneBackward, "1f1b"},
                                             {schedule::PipelineKind::kInterleaved, "interleaved"}});
PACELINE_ENUM_NAMES(Rematerialize, {{Rematerialize::kOff, "off"},
                                    {Rematerialize::kOn, "on"},
                                    {Rematerialize::kAuto, "auto"}});
PACELINE_ENUM_NAMES(OptimizerKind, {{OptimizerKind::kSgd, "sgd"},
                                    {OptimizerKind::kMomentum, "momentum"},
                                    {OptimizerKind::kAdam, "adam"},
                                    {OptimizerKind::kAdagrad, "adagrad"},
                                    {OptimizerKind::kRmsprop, "rmsprop"},
                                    {OptimizerKind::kAdadelta, "adadelta"},
                                    {OptimizerKind::kLars, "lars"},
                                    {OptimizerKind::kLamb, "lamb"}});
PACELINE_ENUM_NAMES(RateScale,
                    {{RateScale::kNone, "none"}, {RateScale::kLinear, "linear"}, {RateScale::kRoot, "root"}});
PACELINE_ENUM_NAMES(WarmUp, {{WarmUp::kGradual, "gradual"}, {WarmUp::kConstant, "constant"}});
PACELINE_ENUM_NAMES(MomentumForm, {{MomentumForm::kOutside, "outside"}, {MomentumForm::kInside, "inside"}});
PACELINE_ENUM_NAMES(TensorsOf, {{TensorsOf::kAll, "all"}, {TensorsOf::kWeights, "weights"}});
PACELINE_ENUM_NAMES(TrustNorm, {{TrustNorm::kGradient, "gradient"}, {TrustNorm::kWithDecay, "with_decay"}});
PACELINE_ENUM_NAMES(DecayNorm, {{DecayNorm::kL2, "l2"}, {DecayNorm::kL1, "l1"}});
PACELINE_ENUM_NAMES(ScheduleKind, {{ScheduleKind::kConstant, "constant"},
                                   {ScheduleKind::kStep, "step"},
                                   {ScheduleKind::kCosine, "cosine"},
                                   {ScheduleKind::kExp, "exp"},
                                   {ScheduleKind::kInv, "inv"},
                                   {ScheduleKind::kMultistep, "multistep"},
                                   {ScheduleKind::kPoly, "poly"},
                                   {ScheduleKind::kSigmoid, "sigmoid"}});
PACELINE_ENUM_NAMES(StalenessScaling, {{StalenessScaling::kNone, "none"},
                                       {StalenessScaling::kInverse, "inverse"},
                                       {StalenessScaling::kInverseRoot, "inverse_root"}});
PACELINE_ENUM_NAMES(CompensationKind, {{CompensationKind::kNone, "none"},
                                       {CompensationKind::kConstant, "constant"},
                                       {CompensationKind::kAdaptive, "adaptive"}});
PACELINE_ENUM_NAMES(Share, {{Share::kEven, "even"}, {Share::kPool, "pool"}});
PACELINE_ENUM_NAMES(BatchSizing, {{BatchSizing::kEqual, "off"}, {BatchSizing::kBySpeed, "speed"}});
PACELINE_ENUM_NAMES(OnNan, {{OnNan::kStop, "stop"}, {OnNan::kSkip, "skip"}});
PACELINE_ENUM_NAMES(Backend, {{Backend::kOnednn, "onednn"}, {Backend::kReference, "reference"}});
PACELINE_ENUM_NAMES(Device, {{Device::kCpu, "cpu"}, {Device::kCuda, "cuda"}});
PACELINE_ENUM_NAMES(Precision, {{Precision::kFp32, "fp32"},
                                {Precision::kTf32, "tf32"},
                                {Precision::kBf16, "bf16"},
                                {Precision::kFp16, "fp16"}});
#define PACELINE_LAYER_NAME(key, name, on_gpu) {LayerKind::key, #name},
PACELINE_ENUM_NAMES(LayerKind, {PACELINE_LAYER_KINDS(PACELINE_LAYER_NAME)});
#undef PACELINE_LAYER_NAME
PACELINE_ENUM_NAMES(WindowEnd, {{WindowEnd::kFloor, "floor"}, {WindowEnd::kCeil, "ceil"}});
PACELINE_ENUM_NAMES(LossDivisor, {{LossDivisor::kValid, "valid"},
                                  {LossDivisor::kSamples, "samples"},
                                  {LossDivisor::kElements, "elements"}});
PACELINE_ENUM_NAMES(LrnRegion, {{LrnRegion::kAcross, "across"}, {LrnRegion::kWithin, "within"}});
PACELINE_ENUM_NAMES(FillerKind, {{FillerKind::kUsual, "usual"},
                                 {FillerKind::kConstant, "constant"},
                                 {FillerKind::kUniform, "uniform"},
                                 {FillerKind::kGaussian, "gaussian"},
                                 {FillerKind::kXavier, "xavier"},
                                 {FillerKind::kMsra, "msra"}});
PACELINE_ENUM_NAMES(FillerNorm, {{FillerNorm::kFanIn, "fan_in"},
                                 {FillerNorm::kFanOut, "fan_out"},
                                 {FillerNorm::kAverage, "average"}});
PACELINE_ENUM_NAMES(Subtract, {{Subtract::kChannel, "channel"},
                               {Subtract::kPixel, "pixel"},
                               {Subtract::kValues, "values"},
                               {Subtract::kNone, "none"}});
PACELINE_ENUM_NAMES(DataKind, {{DataKind::kSynthetic, "synthetic"},
                               {DataKind::kCifar10, "cifar10"},
                               {DataKind::kImages, "images"}});
PACELINE_ENUM_NAMES(CropKind, {{CropKind::kArea, "area"}, {CropKind::kPlace, "place"}});
PACELINE_ENUM_NAMES(OnBad, {{OnBad::kSkip, "skip"}, {OnBad::kFail, "fail"}});
PACELINE_ENUM_NAMES(DataParts, {{DataParts::kAnew, "anew"}, {DataParts::kFixed, "fixed"}});
PACELINE_ENUM_NAMES(DecodeKind, {{DecodeKind::kFused, "fused"},
                                 {DecodeKind::kWhole, "whole"},
                                 {DecodeKind::kScaled, "scaled"}});
PACELINE_ENUM_NAMES(OnDevice, {{OnDevice::kAuto, "auto"}, {OnDevice::kOff, "off"}});
PACELINE_ENUM_NAMES(JitterKind, {{JitterKind::kNone, "none"},
                                 {JitterKind::kUniform, "uniform"},
                                 {JitterKind::kLognormal, "lognormal"},
                                 {JitterKind::kExponential, "exponential"}});

PACELINE_ENUM_NAMES(StageEnd, {{StageEnd::kVersion, "version"},
                               {StageEnd::kIterations, "iterations"},
                               {StageEnd::kProgress, "progress"},
                               {StageEnd::kTrainAccuracy, "train_accuracy"},
                               {StageEnd::kTrainLoss, "train_loss"}});
PACELINE_ENUM_NAMES(SimulateMode, {{SimulateMode::kTiming, "timing"}, {SimulateMode::kTraining, "training"}});
PACELINE_ENUM_NAMES(ComputeKind, {{ComputeKind::kEmulated, "emulated"},
                                  {ComputeKind::kConstant, "constant"},
                                  {ComputeKind::kNormal, "normal"},
                                  {ComputeKind::kLognormal, "lognormal"},
                                  {ComputeKind::kGamma, "gamma"},
                                  {ComputeKind::kPareto, "pareto"}});
PACELINE_ENUM_NAMES(ClusterEventKind,
                    {{ClusterEventKind::kCrash, "crash"}, {ClusterEventKind::kJoin, "join"}});
PACELINE_ENUM_NAMES(MetricNoise, {{MetricNoise::kNone, "none"}, {MetricNoise::kBinomial, "binomial"}});

#undef PACELINE_ENUM_NAMES

// The spelling of `choice`, e.g. "dtssp".
template <typename E>
  requires requires { EnumNames<E>::table; }
const char* name_of(E choice) {
  for (const auto& [value, name] : EnumNames<E>::table) {
    if (value == choice) return name;
  }
  PACELINE_ASSERT(false, "an enum value without a spelling: " + std::to_string(static_cast<int>(choice)));
}

// The choice spelled `name`, or nothing.
template <typename E>
std::optional<E> named(std::string_view name) {
  for (const auto& [value, spelling] : EnumNames<E>::table) {
    if (name == spelling) return value;
  }
  return std::nullopt;
}

}  // namespace paceline
