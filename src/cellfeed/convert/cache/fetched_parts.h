// FetchedParts: rows of a request that several fetches give, each its part. Thread-safe as
// FetchedRows says. Lifetime: what the parts were fetched from outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cellfeed/format/row_store.h"

namespace cellfeed::convert {

struct FetchedPart {
  std::int64_t number = 0;           // whose rows they are, for who made the part
  std::vector<std::int64_t> places;  // in the request, ascending; at least one
  std::unique_ptr<format::FetchedRows> rows;

  std::int64_t n_rows() const { return std::ssize(places); }
  bool is_contiguous() const { return places.back() - places.front() + 1 == n_rows(); }
  // Its rows at places [begin, end) of the request.
  std::pair<std::int64_t, std::int64_t> range(std::int64_t begin, std::int64_t end) const;
};

class FetchedParts : public format::FetchedRows {
 public:
  explicit FetchedParts(std::vector<FetchedPart> parts) : parts_(std::move(parts)) {}

  std::int64_t n_rows() const override { return sum(&FetchedRows::n_rows); }
  void wait() override;
  std::int64_t n_tasks() const override { return sum(&FetchedRows::n_tasks); }
  void run(std::int64_t task) override;
  void sizes(std::span<std::int64_t> nnz) const override;
  void prefetch(std::int64_t begin, std::int64_t end) const override;
  void decode(std::int64_t begin, std::int64_t end, const format::CsrTarget& target) const override;
  void decode_dense(std::int64_t begin, std::int64_t end,
                    const format::DenseTarget& target) const override;
  std::int64_t bytes_read() const override { return sum(&FetchedRows::bytes_read); }
  std::int64_t bytes_used() const override { return sum(&FetchedRows::bytes_used); }
  std::int64_t bytes_held() const override { return sum(&FetchedRows::bytes_held); }

 protected:
  // Every step of a part but decode goes through it: to say more of what it throws.
  virtual void with_part(const FetchedPart&, const std::function<void()>& step) const { step(); }
  // Rows [first, last) of the part, to a target of the part's rows.
  virtual void decode_part(const FetchedPart& part, std::int64_t first, std::int64_t last,
                           const format::CsrTarget& target) const {
    part.rows->decode(first, last, target);
  }
  virtual void decode_part_dense(const FetchedPart& part, std::int64_t first, std::int64_t last,
                                 const format::DenseTarget& target) const {
    part.rows->decode_dense(first, last, target);
  }
  const std::vector<FetchedPart>& parts() const { return parts_; }

 private:
  std::int64_t sum(std::int64_t (format::FetchedRows::*of)() const) const;
  void scatter(const FetchedPart& part, std::int64_t first, std::int64_t last,
               const format::CsrTarget& target) const;
  void prefetch_later_parts(std::int64_t begin, std::int64_t end) const;

  std::vector<FetchedPart> parts_;
};

}  // namespace cellfeed::convert
