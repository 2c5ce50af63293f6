#include "cellfeed/loader/token_sink.h"

#include <algorithm>
#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/base/random_bits.h"
#include "cellfeed/loader/matrix_window.h"
#include "cellfeed/loader/slice_decoder.h"
#include "cellfeed/sampling/random.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::loader {
namespace {

using matrix::CsrBlock;
using matrix::TokenBlock;
using transform::TokenOptions;

std::optional<transform::TokenMasking> make_masking(const TokenOutput& output) {
  if (!output.masking) return std::nullopt;
  transform::MaskingOptions options = *output.masking;
  options.values_are_classes = output.tokenizer.order == TokenOptions::Order::kBins;
  return transform::TokenMasking(options, output.tokenizer.ids);
}

bool is_padding(const sampling::BatchPlan& plan, std::int64_t position) {
  return !plan.is_padding.empty() && plan.is_padding[static_cast<std::size_t>(position)] != 0;
}

}  // namespace

// Random bits for the cells of a batch.
class TokenSink::Keys {
 public:
  explicit Keys(const sampling::BatchPlan& plan)
      : plan_(plan), stream_(plan.seed, plan.epoch, sampling::Purpose::kCellTokens) {}
  transform::TokenKeys of(std::int64_t position) const {
    const auto at = static_cast<std::uint64_t>(plan_.positions[static_cast<std::size_t>(position)]);
    const sampling::TwoWords words = stream_.two_words(at);
    return {.masking = words.first, .truncation = words.second, .ties = stream_.bits(at, 1)};
  }

 private:
  const sampling::BatchPlan& plan_;
  sampling::RandomStream stream_;
};

TokenSink::TokenSink(const TokenOutput& output, const RowPipeline& pipeline, int threads)
    : tokenizer_(output.tokenizer, pipeline.genes()),
      masking_(make_masking(output)),
      selection_(output.selection),
      n_genes_(output.n_genes),
      pads_to_max_length_(output.pads_to_max_length),
      csr_(pipeline, DType::kF32, threads) {
  if (selects() && n_genes_ < 1)
    throw_invalid("a selection of genes keeps n_genes of them, at least 1, not {}", n_genes_);
}

matrix::TokenTargets TokenSink::targets() const {
  if (!masking_) return {};
  const bool has_values = !masking_->options().predicts_genes;
  return {.has_labels = !has_values || masking_->options().values_are_classes,
          .has_values = has_values};
}

std::int64_t TokenSink::width_of(const Rows& rows) const {
  if (pads_to_max_length_) return tokenizer_.options().max_length;
  const std::int64_t entries = rows.window.max_row_size(rows.batch);
  return std::max<std::int64_t>(
      1, tokenizer_.max_tokens(selects() ? std::min(entries, n_genes_) : entries));
}

std::int64_t TokenSink::plan_bytes(const Recycler& recycler, const Rows& rows) const {
  const TokenBlock::Layout layout(rows.size(), width_of(rows), targets());
  return recycler.taken_bytes(static_cast<std::int64_t>(layout.bytes)) +
         (selects() ? csr_.plan_bytes(recycler, rows) : 0);
}

matrix::Block TokenSink::begin(Recycler& recycler, const Rows& rows) const {
  TokenBlock block;
  block.n_rows = rows.size();
  block.n_cols = tokenizer_.n_cols();
  block.width = width_of(rows);
  block.targets = targets();
  block.layout = TokenBlock::Layout(block.n_rows, block.width, block.targets);
  block.memory = recycler.take_bytes(block.layout.bytes, rows.matrix);
  if (selects()) block.rows = std::make_unique<CsrBlock>(csr_.begin_csr(recycler, rows));
  return block;
}

void TokenSink::take(SliceDecoder& decoder, matrix::Block& block) const {
  auto& tokens = std::get<TokenBlock>(block);
  if (selects()) return csr_.take_csr(decoder, *tokens.rows);
  const Keys keys(decoder.plan());
  decoder.for_each_step([](const Piece&) { return false; },
                        [&](const Piece& step) {
                          decoder.decode_apart(
                              step, DType::kF32, transform::EntryOrder::kIncreasing,
                              [&](std::int64_t position, const transform::Row& row) {
                                write(decoder.plan(), keys, position, row, {}, tokens);
                              });
                        });
  transform::publish_copies();
}

void TokenSink::write(const sampling::BatchPlan& plan, const Keys& keys, std::int64_t position,
                      const transform::Row& row, std::span<const std::uint8_t> keeps,
                      TokenBlock& block) const {
  const TokenBlock::Layout& layout = block.layout;
  const auto width = static_cast<std::size_t>(block.width);
  const std::size_t begin = static_cast<std::size_t>(position) * width;
  // Eight bytes a token, most of them the same: made in the nearest cache.
  static thread_local std::vector<std::int64_t> labels;
  if (block.targets.has_labels) labels.resize(width);
  const transform::TokenRow out{.ids = block.at<std::int32_t>(layout.ids) + begin,
                                .values = block.at<float>(layout.values) + begin,
                                .labels = block.targets.has_labels ? labels.data() : nullptr,
                                .target_values = block.targets.has_values
                                                     ? block.at<float>(layout.target_values) + begin
                                                     : nullptr};
  const transform::TokenKeys drawn = keys.of(position);
  const std::int32_t length = tokenizer_.tokenize(row, keeps, drawn, out.ids, out.values);
  const auto end = static_cast<std::size_t>(length);
  std::fill(out.ids + end, out.ids + width, transform::kPadToken);
  std::fill(out.values + end, out.values + width, 0.0f);
  auto* mask = block.at<std::uint8_t>(layout.mask) + begin;
  std::fill(mask, mask + end, std::uint8_t{1});
  std::fill(mask + end, mask + width, std::uint8_t{0});
  block.at<std::int32_t>(layout.lengths)[position] = length;
  transform::predict_nothing(out, width);
  if (masking_ && !is_padding(plan, position))
    masking_->hide(out, tokenizer_.options().has_class_token ? 1 : 0, length, drawn.masking);
  if (block.targets.has_labels)
    transform::copy_past_caches(labels.data(), width * sizeof(std::int64_t),
                                block.at<std::int64_t>(layout.labels) + begin);
}

std::int64_t TokenSink::finish(Recycler& recycler, const Rows& rows, matrix::Block& block) const {
  auto& tokens = std::get<TokenBlock>(block);
  if (selects()) {
    csr_.finish_csr(recycler, rows, *tokens.rows);
    write_selected(rows.plan, tokens);
    matrix::Block done = std::move(*tokens.rows);
    recycler.give_back(done, rows.matrix);
    tokens.rows.reset();
  }
  if (pads_to_max_length_) return 0;
  const auto* lengths = tokens.at<std::int32_t>(tokens.layout.lengths);
  tokens.narrow(std::max(1, *std::max_element(lengths, lengths + tokens.n_rows)));
  return 0;
}

void TokenSink::write_selected(const sampling::BatchPlan& plan, TokenBlock& block) const {
  CsrBlock& rows = *block.rows;
  const auto keeps = select_genes(plan, rows);
  const Keys keys(plan);
  auto* values = std::get<matrix::Buffer<float>>(rows.values).data();
  for (std::int64_t i = 0; i < rows.n_rows; ++i) {
    const std::int64_t begin = rows.indptr[i];
    const transform::Row row{.indices = rows.indices.data() + begin,
                             .values = values + begin,
                             .dtype = DType::kF32,
                             .size = static_cast<std::int32_t>(rows.indptr[i + 1] - begin),
                             .library_size = 0,
                             .cell = plan.rows[static_cast<std::size_t>(i)]};
    write(plan, keys, i, row, keeps, block);
  }
  transform::publish_copies();
}

std::vector<std::uint8_t> TokenSink::select_genes(const sampling::BatchPlan& plan,
                                                  const CsrBlock& rows) const {
  const auto n_cols = static_cast<std::size_t>(rows.n_cols);
  const auto& values = std::get<matrix::Buffer<float>>(rows.values);
  const bool has_cells = plan.is_padding.empty() ||
                         std::ranges::any_of(plan.is_padding, [](auto mark) { return mark == 0; });
  std::vector<double> sums(n_cols);
  for (std::int64_t i = 0; i < rows.n_rows; ++i) {
    if (has_cells && is_padding(plan, i)) continue;
    for (std::int64_t k = rows.indptr[i]; k < rows.indptr[i + 1]; ++k)
      sums[rows.indices[k]] += static_cast<double>(values[k]);
  }
  std::vector<std::int32_t> expressed;
  for (std::size_t c = 0; c < n_cols; ++c) {
    const auto column = static_cast<std::int32_t>(c);
    if (sums[c] > 0 && tokenizer_.id_of(column) != transform::kPadToken)
      expressed.push_back(column);
  }
  const std::size_t n_kept = std::min(expressed.size(), static_cast<std::size_t>(n_genes_));
  const std::uint64_t key =
      sampling::RandomStream(plan.seed, plan.epoch, sampling::Purpose::kGenesOfBatch)
          .bits(static_cast<std::uint64_t>(plan.step_begin));
  const auto drawn = [&](std::int32_t id) {
    return splitmix64(key, static_cast<std::uint64_t>(id));
  };
  const auto comes_first = [&](std::int32_t a, std::int32_t b) {
    const std::int32_t id_a = tokenizer_.id_of(a);
    const std::int32_t id_b = tokenizer_.id_of(b);
    if (selection_ == GeneSelection::kMostExpressed)
      return sums[a] != sums[b] ? sums[a] > sums[b] : id_a < id_b;
    const std::uint64_t of_a = drawn(id_a);
    const std::uint64_t of_b = drawn(id_b);
    return of_a != of_b ? of_a < of_b : id_a < id_b;
  };
  if (n_kept < expressed.size())
    std::nth_element(expressed.begin(), expressed.begin() + static_cast<std::ptrdiff_t>(n_kept),
                     expressed.end(), comes_first);
  std::vector<std::uint8_t> keeps(n_cols, 0);
  for (std::size_t i = 0; i < n_kept; ++i) keeps[expressed[i]] = 1;
  return keeps;
}

}  // namespace cellfeed::loader
