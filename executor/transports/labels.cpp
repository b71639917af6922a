#include "executor/transports/labels.hpp"

#include <string>
#include <string_view>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Messages are counted from 1 for people.
std::string described(const MessageLabel& label) {
  return concat("message ", label.number + 1, " (microbatch ", label.microbatch, ", to stage ",
                label.stage, ")");
}

std::string_view explanation(const MessageLabel& expected, const MessageLabel& came) {
  if (came.number > expected.number) return "what is between them was lost on its way";
  if (came.number < expected.number) return "it came twice";
  return "sender and receiver carry out different programs";
}

}  // namespace

MessageLabels::MessageLabels(const Program& program, const RankMap& ranks)
    : program_(program), ranks_(ranks), messages_(ranks.wiring().channels.size()) {}

MessageLabel MessageLabels::next(int channel, const Work& work) {
  const Channel& leads = program_.channels[static_cast<std::size_t>(*work.channel)];
  return {.number = messages_[static_cast<std::size_t>(channel)]++,
          .stage = program_.chunks[static_cast<std::size_t>(leads.to)].stage,
          .microbatch = work.instruction.microbatch};
}

void MessageLabels::check(int channel, const Work& work, const MessageLabel& came) {
  const MessageLabel expected = next(channel, work);
  if (came == expected) return;
  const ChannelEnds& ends = ranks_.wiring().channels[static_cast<std::size_t>(channel)];
  const Cargo cargo = program_.channels[static_cast<std::size_t>(*work.channel)].cargo;
  throw Error(ErrorKind::execution,
              concat("on the channel of ", to_string(cargo), " from rank ", ends.from, " to rank ",
                     ends.to, ", ", described(expected), " was expected, but ", described(came),
                     " came: ", explanation(expected, came)));
}

}  // namespace stagecraft
