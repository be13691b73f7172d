#include "common/wire/messages.h"

#include "common/wire/message_table.h"

namespace paceline::wire {
namespace {

#define PACELINE_NAME(Struct, field, kCase) \
  constexpr const char* name(const Struct&) { return #Struct; }
PACELINE_MESSAGES(PACELINE_NAME)
#undef PACELINE_NAME

}  // namespace

static_assert(std::is_nothrow_move_constructible_v<AnyBody> && std::is_nothrow_move_assignable_v<AnyBody>);

Body::Body() = default;
Body::Body(const Body&) = default;
Body::Body(Body&&) noexcept = default;
Body& Body::operator=(const Body&) = default;
Body& Body::operator=(Body&&) noexcept = default;
Body::~Body() = default;

const char* name_of(const Body& body) {
  return std::visit([](const auto& of_body) { return name(of_body); }, body);
}

}  // namespace paceline::wire
