#include "simulator/checks/rendezvous.hpp"

#include <algorithm>
#include <utility>

#include "profiles/index.hpp"

namespace stagecraft::checks {

Rendezvous::Rendezvous(const Facts& facts, int capacity)
    : facts_(&facts), capacity_(index(capacity)) {
  const Program& program = facts.program;
  queues_.resize(2 * index(program.devices));
  heads_.resize(queues_.size(), 0);
  place_.resize(program.work.size());
  waiting_.resize(program.work.size());
  arrived_.resize(facts.meetings.size(), 0);
  buffered_.resize(program.channels.size());
  blocked_.resize(program.channels.size(), none);
  for (const std::vector<int>& order : program.order) {
    for (const int work : order) enqueue(work);
  }
  for (std::size_t work = 0; work < program.work.size(); ++work) {
    waiting_[work] = static_cast<int>(facts.local_waits(static_cast<int>(work)).size());
  }
}

void Rendezvous::run() {
  for (std::size_t queue = 0; queue < queues_.size(); ++queue) look_at_head(queue);
  proceed();
}

bool Rendezvous::finished() const {
  for (std::size_t queue = 0; queue < queues_.size(); ++queue) {
    if (heads_[queue] < queues_[queue].size()) return false;
  }
  return true;
}

Place Rendezvous::place_of(int work) const {
  return {facts_->device_of(work), facts_->program.work[index(work)].lane != Lane::compute};
}

std::optional<int> Rendezvous::head(Place place) const {
  const std::size_t queue = index_of(place);
  if (heads_[queue] == queues_[queue].size()) return {};
  return queues_[queue][heads_[queue]];
}

bool Rendezvous::done(int work) const {
  return place_[index(work)] < heads_[index_of(place_of(work))];
}

bool Rendezvous::at_head(int work) const {
  return place_[index(work)] == heads_[index_of(place_of(work))];
}

bool Rendezvous::arrived(int work) const {
  return at_head(work) && waiting_[index(work)] == 0;
}

std::size_t Rendezvous::distance(int work) const {
  return place_[index(work)] - heads_[index_of(place_of(work))];
}

int Rendezvous::at_distance(Place place, std::size_t distance) const {
  const std::size_t queue = index_of(place);
  return queues_[queue][heads_[queue] + distance];
}

std::optional<int> Rendezvous::next_receive(int message) const {
  const std::vector<int>& buffered = buffered_[index(channel_of(message))];
  if (buffered.empty()) return {};
  return facts_->meetings[index(facts_->meeting_of[index(buffered.front())])][1];
}

void Rendezvous::advance(int work, std::size_t steps) {
  const std::size_t queue = index_of(place_of(work));
  const std::size_t old_place = place_[index(work)];
  const std::size_t new_place = old_place - steps;
  const int old_head = queues_[queue][heads_[queue]];
  if (new_place == heads_[queue] && arrived(old_head)) leave_door(old_head);
  const auto begin = queues_[queue].begin();
  std::rotate(begin + static_cast<std::ptrdiff_t>(new_place),
              begin + static_cast<std::ptrdiff_t>(old_place),
              begin + static_cast<std::ptrdiff_t>(old_place) + 1);
  for (std::size_t i = new_place; i <= old_place; ++i) place_[index(queues_[queue][i])] = i;
  if (new_place != heads_[queue]) return;
  look_at_head(queue);
  proceed();
}

std::size_t Rendezvous::index_of(Place place) {
  return 2 * index(place.device) + (place.communication ? 1 : 0);
}

bool Rendezvous::is_buffered(int work) const {
  return capacity_ > 0 && facts_->program.work[index(work)].channel.has_value();
}

int Rendezvous::channel_of(int work) const {
  return *facts_->program.work[index(work)].channel;
}

void Rendezvous::enqueue(int work) {
  auto& queue = queues_[index_of(place_of(work))];
  place_[index(work)] = queue.size();
  queue.push_back(work);
}

void Rendezvous::look_at_head(std::size_t queue) {
  if (heads_[queue] == queues_[queue].size()) return;
  const int work = queues_[queue][heads_[queue]];
  if (waiting_[index(work)] == 0) arrive(work);
}

void Rendezvous::arrive(int work) {
  if (facts_->meeting_of[index(work)] == none) {
    ending_.push_back(work);
  } else if (!is_buffered(work)) {
    meet(work);
  } else if (is_send(facts_->program.work[index(work)].instruction.op)) {
    post(work);
  } else {
    take(work);
  }
}

/// All end when the last one has come.
void Rendezvous::meet(int work) {
  const int meeting = facts_->meeting_of[index(work)];
  const Meeting& members = facts_->meetings[index(meeting)];
  if (++arrived_[index(meeting)] < members.size()) return;
  ending_.insert(ending_.end(), members.begin(), members.end());
}

/// Hands the message over, or puts it into the channel, or waits for room.
void Rendezvous::post(int send) {
  std::vector<int>& buffered = buffered_[index(channel_of(send))];
  const bool receiver_waits = arrived_[index(facts_->meeting_of[index(send)])] > 0;
  if (buffered.empty() && receiver_waits) {
    meet(send);
  } else if (buffered.size() < capacity_) {
    buffered.push_back(send);
    ending_.push_back(send);
  } else {
    blocked_[index(channel_of(send))] = send;
  }
}

/// Takes the message that is next in the channel, which makes room; or waits for its own.
void Rendezvous::take(int receive) {
  const int channel = channel_of(receive);
  std::vector<int>& buffered = buffered_[index(channel)];
  const int send = facts_->meetings[index(facts_->meeting_of[index(receive)])][0];
  if (buffered.empty() || buffered.front() != send) return meet(receive);
  buffered.erase(buffered.begin());
  ending_.push_back(receive);
  const int next = std::exchange(blocked_[index(channel)], none);
  if (next != none) post(next);
}

/// No longer stands where it has arrived.
void Rendezvous::leave_door(int work) {
  const int meeting = facts_->meeting_of[index(work)];
  if (meeting == none) return;
  if (is_buffered(work) && blocked_[index(channel_of(work))] == work) {
    blocked_[index(channel_of(work))] = none;
  } else {
    --arrived_[index(meeting)];
  }
}

void Rendezvous::proceed() {
  while (!ending_.empty()) {
    const int work = ending_.back();
    ending_.pop_back();
    const std::size_t queue = index_of(place_of(work));
    ++heads_[queue];
    look_at_head(queue);
    for (const int dependent : facts_->dependents(work)) {
      if (--waiting_[index(dependent)] == 0 && at_head(dependent)) arrive(dependent);
    }
  }
}

}  // namespace stagecraft::checks
