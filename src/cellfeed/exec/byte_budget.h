// ByteBudget: so many bytes may be held at once; who wants more waits.
// Thread-safe. Leases may outlive the budget. Not fork-safe: make a new one in a child.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

namespace cellfeed::exec {

class ByteBudget {
  struct State;

 public:
  // Gives its bytes back when it is destroyed. Move-only; not thread-safe.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : state_(std::move(other.state_)), bytes_(std::exchange(other.bytes_, 0)) {}
    Lease& operator=(Lease&& other) noexcept;
    ~Lease() { release(); }

    std::int64_t bytes() const { return bytes_; }
    void release() noexcept;
    // Gives back all but `bytes`. REQUIRES: 0 <= bytes <= bytes().
    void shrink(std::int64_t bytes);
    // Gives back, or takes at once, until `bytes` are held. REQUIRES: bytes >= 0, a lease that was
    // acquired.
    void set(std::int64_t bytes);

   private:
    friend class ByteBudget;
    Lease(std::shared_ptr<State> state, std::int64_t bytes)
        : state_(std::move(state)), bytes_(bytes) {}

    std::shared_ptr<State> state_;
    std::int64_t bytes_ = 0;
  };

  // REQUIRES: limit > 0.
  explicit ByteBudget(std::int64_t limit);

  // Waits until `bytes` fit, or until must_go_on() is true: then they are taken beyond the limit. A
  // request above the limit fits when nothing else is held, so that one large row can always be
  // read. Empty once a stop is requested. must_go_on is asked after whatever is given back and
  // after recheck(), under a lock: it uses no budget and takes no lock.
  std::optional<Lease> acquire(std::int64_t bytes, std::stop_token stop,
                               const std::function<bool()>& must_go_on);
  // What must_go_on() of others says may have changed.
  void recheck();
  // Empty when the bytes do not fit now, beside what others wait for.
  std::optional<Lease> try_acquire(std::int64_t bytes);
  // At once, beyond the limit where need be: for what is there already, or without which nothing
  // goes on. Counted as all others are.
  Lease take(std::int64_t bytes);

  std::int64_t limit() const;
  std::int64_t used() const;
  std::int64_t peak() const;  // the largest used() so far

 private:
  std::shared_ptr<State> state_;
};

}  // namespace cellfeed::exec
