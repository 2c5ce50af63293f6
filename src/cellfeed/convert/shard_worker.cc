#include "cellfeed/convert/shard_worker.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/conversion_plan.h"
#include "cellfeed/convert/shared_conversion.h"
#include "cellfeed/format/shard/manifest_json.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/look_anew.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using Clock = std::chrono::steady_clock;

// How often a process that writes looks whether the conversion is still under way.
constexpr std::chrono::seconds kRunLookInterval{5};

io::Directory open_target(const std::string& dir) {
  if (!io::is_directory(dir))
    throw Error(ErrorKind::kNotFound,
                "this process does not see the folder that the shards are written to; all of them "
                "need it under the same path",
                dir);
  return io::Directory(dir);
}

// Where files are replaced whole, as in a bucket, a journal is written again with every shard that
// is finished: also while it is read.
std::optional<shard::JournalHead> look_at_journal(const io::Directory& dir) {
  constexpr int kTries = 20;
  for (int tried = 1;; ++tried) {
    io::look_anew();
    try {
      return shard::read_journal_head(dir);
    } catch (const Error& error) {
      const bool is_replaced =
          error.kind() == ErrorKind::kCorruptData || error.kind() == ErrorKind::kNotFound;
      if (!is_replaced || io::is_local(dir.path()) || tried == kTries) throw;
    }
  }
}

bool is_permutation(std::vector<std::int64_t> numbers, std::int64_t n) {
  std::ranges::sort(numbers);
  for (std::int64_t i = 0; i < std::ssize(numbers); ++i)
    if (numbers[i] != i) return false;
  return std::ssize(numbers) == n;
}

}  // namespace

std::string task_text(const SharedOptions& options, const std::string& plan) {
  return nlohmann::json{{"options", to_text(options)},
                        {"plan", shard::checksum_to_text(shard::plan_fingerprint(plan))}}
      .dump();
}

bool needs_first_pass(const SharedOptions& options) {
  return options.processing || options.convert.gene_order == shard::GeneOrder::kMean;
}

bool ShardWorker::is_under_way() const {
  const auto head = look_at_journal(target_.dir);
  return head && head->generation == target_.generation &&
         shard::plan_fingerprint(head->plan) == plan_fingerprint_;
}

void ShardWorker::require_under_way() const {
  if (is_under_way()) return;
  throw Error(ErrorKind::kCancelled,
              "the conversion that this process writes shards of is no longer under way there, or "
              "the folder is another one than the process that began it sees",
              target_.dir.path());
}

ShardWorker::ShardWorker(const std::string& task, const InputCells& input,
                         const Resources& resources)
    : n_callers_(std::max<std::int64_t>(1, resources.n_callers)) {
  const std::string in_task = "the task of a conversion";
  const shard::Json json = shard::parse_json(task, in_task);
  const shard::JsonReader read(json, in_task);
  options_ = shared_options_of(read.text("options"));
  plan_fingerprint_ = read.checksum("plan");
  ConvertOptions& convert = options_.convert;
  target_.dir = open_target(convert.output_dir);
  const auto head = look_at_journal(target_.dir);
  target_.generation = head ? head->generation : 0;
  require_under_way();
  convert.existing = ExistingTarget::kResume;
  convert.threads = resources.threads;
  convert.memory_budget = resources.memory_budget;
  convert.input = input;
  if (needs_first_pass(options_)) found_ = read_first_pass(target_);
  if (options_.processing) {
    preprocessing_ = std::make_unique<Preprocessing>(
        PreprocessOptions{.processing = *options_.processing, .convert = convert});
    preprocessing_->require_own(found_.kept);
    convert = preprocessing_->conversion_of(found_.kept);
  }
  conversion_ = std::make_unique<OpenConversion>(convert);
  if (const std::string plan = conversion_->plan(); plan != head->plan)
    throw_error(ErrorKind::kInvalidArgument, convert.output_dir,
                "the inputs that this process sees are not those that the conversion was begun "
                "with: {}",
                plan_difference(head->plan, plan));
  if (!found_.gene_order.empty() &&
      !is_permutation(found_.gene_order, conversion_->sources().genes().size()))
    throw Error(ErrorKind::kCorruptData, "the order of genes is not of these inputs; begin again",
                convert.output_dir);
  conversion_->set_gene_order(found_.gene_order);
}

std::vector<std::string> ShardWorker::write(const std::vector<std::int64_t>& shards,
                                            const ProgressCallback& progress,
                                            const std::stop_token& stop) {
  require_under_way();
  WantedShards wanted;
  wanted.is_wanted.assign(static_cast<std::size_t>(conversion_->n_shards()), false);
  std::int64_t before = conversion_->sources().n_cells();
  for (const std::int64_t number : shards) {
    if (number < 0 || number >= conversion_->n_shards() || wanted.is_wanted[number])
      throw_invalid("there are {} shards, and number {} was asked for{}", conversion_->n_shards(),
                    number, number >= 0 && number < conversion_->n_shards() ? " twice" : "");
    wanted.is_wanted[number] = true;
    before -= conversion_->shard_end(number) - conversion_->shard_begin(number);
  }
  std::vector<std::string> written;
  wanted.finished = [&](const shard::ShardEntry& entry) {
    written.push_back(shard::shard_to_json(entry).dump());
  };
  auto looked = Clock::now();
  wanted.progress = [&](const Progress& p) {
    if (Clock::now() - looked > kRunLookInterval) {
      require_under_way();
      looked = Clock::now();
    }
    if (progress) progress({p.phase, p.done - before, p.total - before, p.rate});
  };
  wanted.stop = stop;
  wanted.n_callers = n_callers_;
  conversion_->write_shards(target_, wanted);
  return written;
}

}  // namespace cellfeed::convert
