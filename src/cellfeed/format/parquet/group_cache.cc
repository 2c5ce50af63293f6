#include "cellfeed/format/parquet/group_cache.h"

#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::format::parquet_table {
namespace {

// Readers from front to back are in one group and the next.
constexpr std::size_t kLastGroups = 2;

}  // namespace

GroupCache::Group GroupCache::find_in(State& state, int number) const {
  if (Group known = chunks_.find({0, number})) return known;
  for (const auto& [last, group] : state.last)
    if (last == number) return group;
  return nullptr;
}

GroupCache::Group GroupCache::find(int number) const {
  State& state = state_.get();
  const std::lock_guard lock(state.mutex);
  return find_in(state, number);
}

GroupCache::Group GroupCache::get(int number, std::int64_t n_bytes,
                                  const std::function<void(std::span<std::byte>)>& decode) const {
  State& state = state_.get();
  std::shared_ptr<Decoding> own;
  {
    std::unique_lock lock(state.mutex);
    while (!own) {
      if (Group known = find_in(state, number)) return known;
      const auto [at, is_new] = state.decoding.try_emplace(number);
      if (is_new) {
        own = at->second = std::make_shared<Decoding>();
        continue;
      }
      const std::shared_ptr<Decoding> other = at->second;
      exec::wait_unless_stopped(state.decoded, lock, [&] { return other->is_over; });
      if (other->group) return other->group;
    }
  }
  std::shared_ptr<chunked::InflatedChunk> chunk;
  try {
    chunk = chunks_.make_chunk(static_cast<std::size_t>(n_bytes));
    decode(chunk->bytes.span());
  } catch (...) {
    end(state, number, *own, nullptr);
    throw;
  }
  chunks_.insert({0, number}, chunk);
  end(state, number, *own, chunk);
  return chunk;
}

void GroupCache::end(State& state, int number, Decoding& own, const Group& group) const {
  std::pair<int, Group> dropped;  // freed after the lock
  const std::lock_guard lock(state.mutex);
  state.decoding.erase(number);
  own.group = group;
  own.is_over = true;
  state.decoded.notify_all();
  if (!keeps_last_ || !group) return;
  state.last.emplace_back(number, group);
  if (state.last.size() <= kLastGroups) return;
  dropped = std::move(state.last.front());
  state.last.pop_front();
}

void GroupCache::release() const {
  std::deque<std::pair<int, Group>> dropped;
  State* const state = state_.peek();
  if (state == nullptr) return;
  const std::lock_guard lock(state->mutex);
  dropped.swap(state->last);
}

}  // namespace cellfeed::format::parquet_table
