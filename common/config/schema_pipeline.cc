// Rows of `pipeline`: a network cut into stages.
#include "common/config/schema.h"
#include "common/network/stages.h"

namespace paceline::config {
namespace {

constexpr std::uint32_t kStagesMax = 4096;
constexpr std::uint32_t kLayersMax = 65536;

Domain<StageBalance> balance() {
  const Domain<std::vector<std::uint32_t>> list = list_of(whole32(1, kLayersMax));
  const std::string expected = "time | memory | loop, or a list: the layers of each stage";
  return {expected,
          [list, expected](const Value& value, StageBalance& field) -> std::optional<Fault> {
            if (value.kind == Value::Kind::kList) {
              StageBalance by_hand{BalanceKind::kLayers, {}};
              if (auto wrong = list.read(value, by_hand.layers)) return wrong;
              if (by_hand.layers.empty()) return fault(value, "an empty list", expected);
              field = std::move(by_hand);
              return std::nullopt;
            }
            const bool is_scalar = value.kind == Value::Kind::kScalar;
            if (!is_scalar || (value.text != "time" && value.text != "memory" && value.text != "loop")) {
              return fault(value, "unknown choice", expected);
            }
            field = {value.text == "time"     ? BalanceKind::kTime
                     : value.text == "memory" ? BalanceKind::kMemory
                                              : BalanceKind::kLayers,
                     {}};
            return std::nullopt;
          },
          [list](const StageBalance& field) {
            if (cut_by_loop(field)) return std::string("loop");
            if (field.kind == BalanceKind::kLayers) return list.write(field.layers);
            return std::string(field.kind == BalanceKind::kTime ? "time" : "memory");
          }};
}

}  // namespace

void add_pipeline(Schema& schema) {
  schema.sections.push_back({"pipeline", "a network that is cut into stages", Scope::kWholeRun});
  auto& keys = schema.keys;
  keys.push_back(row(
      PACELINE_FIELD(pipeline.stages), whole32(1, kStagesMax), Scope::kWholeRun,
      {.unit = "stages",
       .effect = "So many nodes in a row are a group, which trains one copy of the network: each holds and "
                 "computes a part of its layers. A group's mini-batch is the batch_size of all its "
                 "workers. `paceline schedule` prints the cut. 1: every worker computes all layers.",
       .trade_off = "More stages hold larger networks, and wait more for each other."}));
  keys.push_back(row(PACELINE_FIELD(pipeline.micro_batches), whole(1, 65536), Scope::kWholeRun,
                     {.unit = "micro-batches",
                      .effect = "Into so many a group's mini-batch is cut. They go through the stages one "
                                "after the other.",
                      .trade_off = "More keep the stages busier; each is smaller, and less efficient."}));
  keys.push_back(
      row(PACELINE_FIELD(pipeline.schedule), choice<schedule::PipelineKind>(), Scope::kWholeRun,
          {.effect = "gpipe: all micro-batches forward, then all back. 1f1b: back as soon as one can go. "
                     "interleaved: 1f1b of stages that have several parts of the network.",
           .trade_off = "1f1b keeps activations of at most as many micro-batches as there are stages. "
                        "interleaved waits less, and sends and keeps more."}));
  keys.push_back(
      row(PACELINE_FIELD(pipeline.chunks), whole32(2, 64), Scope::kWholeRun,
          {.unit = "chunks of a stage",
           .effect = "With interleaved: the network is cut into so many times as many chunks as there "
                     "are stages, and a stage has every K-th of them.",
           .trade_off = "v chunks: a v-th of the bubble, v times the messages."}));
  // A resume may change where the layers are cut (not of chunks: server/run/resume.cc) and what is kept: with the same
  // cut the bits are the same, too.
  keys.push_back(
      row(PACELINE_FIELD(pipeline.rematerialize), choice<Rematerialize>(), Scope::kOneSession,
          {.effect = "on: activations are computed again for the backward pass instead of kept, "
                     "while a stage would wait. auto: as few as pipeline.memory asks for.",
           .trade_off = "on takes the memory of one micro-batch and what comes in of the others, and one "
                        "more forward pass."}));
  keys.push_back(row(
      PACELINE_FIELD(pipeline.balance), balance(), Scope::kOneSession,
      {.effect = "Where the layers are cut: so that stages take equally long (time), or equal memory, or by "
                 "hand: how many layers each (of interleaved, each chunk) has. loop: a PyTorch loop says "
                 "where its model is.",
       .trade_off = "time counts the products of a layer, memory its parameters and activations; by hand is "
                    "for who knows better."}));
  keys.push_back(
      row(PACELINE_FIELD(pipeline.memory), or_null(bytes(4, std::int64_t{1} << 50, 1)), Scope::kOneSession,
          {.unit = "bytes",
           .effect =
               "What a node may take for the parameters of its stage, their gradients, activations, and what "
               "an all-reduce keeps. A cut that needs more is refused; without stages, a network that does. "
               "Copies in the library's own formats, an evaluation and messages, which may wait here, are "
               "not counted. null: no "
               "limit.",
           .trade_off = "Less asks for more stages, or with rematerialize: auto for more recomputation."}));
}

}  // namespace paceline::config
