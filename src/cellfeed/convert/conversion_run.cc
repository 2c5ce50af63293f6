#include "cellfeed/convert/conversion_run.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/convert/append/shard_base.h"
#include "cellfeed/convert/conversion_plan.h"

namespace cellfeed::convert {

namespace shard = format::shard;

namespace {

std::string how_to_start_again(const ConvertOptions& options) {
  return options.base ? "without " + argument("resume", "true")
                      : "with " + argument("overwrite", "true");
}

}  // namespace

ConversionRun::ConversionRun(OpenConversion& conversion)
    : conversion_(conversion),
      options_(conversion.options()),
      plan_(conversion.plan()),
      directory_(options_.output_dir, options_.directory, options_.existing, conversion.sources()) {
  target_.dir = directory_.directory();
  note(directory_.unfinished_uploads());
  if (options_.base ? is_appended_before() : directory_.is_finished()) {
    manifest_ = shard::read_manifest(options_.output_dir);
    require_same_conversion(*manifest_);
    require_whole();
    n_resumed_ = conversion_.n_shards();
    return;
  }
  journal_.emplace(directory_.open_journal(plan_, resume_options()));
  require_shards_of_plan();
  target_.generation = journal_->generation();
  n_resumed_ = std::ssize(journal_->finished());
  if (n_resumed_ < conversion_.n_shards()) conversion_.transpose_columns(target_.dir);
  if (options_.base) return;
  conversion_.order_genes();
  genes_ = conversion_.write_genes(target_);
  annotations_ = conversion_.write_annotations(target_);
}

// Of finished shards, compared with their checksums by the threads of the pool.
shard::ResumeOptions ConversionRun::resume_options() {
  shard::ResumeOptions resume;
  resume.describe_difference = plan_difference;
  resume.start_again = how_to_start_again(options_);
  resume.progress = [this, clock = ProgressMeter({}, "", 0)](std::int64_t done,
                                                             std::int64_t total) {
    if (options_.stop.stop_requested())
      throw Error(ErrorKind::kCancelled, "stopped before the end", options_.output_dir);
    if (!options_.progress) return;
    const double seconds = clock.seconds();
    options_.progress({"checking finished shards", done, total,
                       seconds > 0 ? static_cast<double>(done) / seconds : 0});
  };
  resume.parallel = [this](std::int64_t n, const std::function<void(std::int64_t)>& task) {
    conversion_.pool().parallel_for(n, task);
  };
  return resume;
}

void ConversionRun::require_same_conversion(const shard::Manifest& manifest) const {
  if (manifest.plan_fingerprint == shard::plan_fingerprint(plan_)) return;
  throw_error(ErrorKind::kAlreadyExists, options_.output_dir,
              "holds finished shards of other inputs or options; choose another directory, or "
              "replace them with {}",
              argument("overwrite", "true"));
}

bool ConversionRun::is_appended_before() const {
  const shard::Manifest there = shard::read_manifest(options_.output_dir);
  if (there.plan_fingerprint == shard::plan_fingerprint(plan_)) return true;
  if (shard::manifest_to_json(there) != shard::manifest_to_json(options_.base->manifest))
    throw Error(
        ErrorKind::kAlreadyExists,
        "another program wrote to these shards after this one had looked at them: run again",
        options_.output_dir);
  return false;
}

bool ConversionRun::is_of_plan(const shard::ShardEntry& shard) const {
  const std::int64_t number = shard.shard - conversion_.first_shard();
  return number >= 0 && number < conversion_.n_shards() &&
         shard.first_cell == conversion_.first_cell() + conversion_.shard_begin(number) &&
         shard.n_cells == conversion_.shard_end(number) - conversion_.shard_begin(number);
}

// A journal from elsewhere may name any shard.
void ConversionRun::require_shards_of_plan() const {
  for (const auto& [number, entry] : journal_->finished())
    if (!is_of_plan(entry))
      throw_error(ErrorKind::kCorruptData, options_.output_dir,
                  "the journal has a shard {} of cells {} to {}, which this conversion has not; "
                  "start again {}",
                  number, entry.first_cell, entry.first_cell + entry.n_cells,
                  how_to_start_again(options_));
}

std::vector<shard::Damage> ConversionRun::find_damage() {
  const shard::ResumeOptions resume = resume_options();
  const auto in_cells = [&](std::int64_t done, std::int64_t total) {
    const double part =
        static_cast<double>(done) / static_cast<double>(std::max<std::int64_t>(1, total));
    resume.progress(
        static_cast<std::int64_t>(part * static_cast<double>(conversion_.sources().n_cells())),
        conversion_.sources().n_cells());
  };
  if (!options_.base)
    return shard::verify_shard_dir(options_.output_dir, in_cells, resume.parallel);
  std::vector<shard::ShardEntry> appended = manifest_->shards;
  std::erase_if(appended, [&](const auto& shard) { return !is_of_plan(shard); });
  return shard::verify_shards(options_.output_dir, appended, in_cells, resume.parallel);
}

void ConversionRun::require_whole() {
  for (const auto& damage : find_damage())
    if (damage.end > damage.begin)
      throw_error(ErrorKind::kCorruptData, options_.output_dir,
                  "the shards are finished, but damaged: {}, bytes {} to {}: {}; {}", damage.file,
                  damage.begin, damage.end, damage.what,
                  options_.base ? "restore this file"
                                : "convert again with " + argument("overwrite", "true"));
}

std::vector<std::int64_t> ConversionRun::missing_shards() const {
  std::vector<std::int64_t> missing;
  if (!journal_) return missing;
  const auto finished = journal_->finished();
  for (std::int64_t k = 0; k < conversion_.n_shards(); ++k)
    if (!finished.contains(conversion_.first_shard() + k)) missing.push_back(k);
  return missing;
}

std::string ConversionRun::text_of_rest() const {
  const bool has_others = directory_.is_rewritten() || options_.base;
  return fmt::format("{} of {} {}shards are finished and stay: continue with {}{}",
                     journal_->finished().size(), conversion_.n_shards(), has_others ? "new " : "",
                     argument("resume", "true"),
                     has_others ? "; the old ones are as they were" : "");
}

void ConversionRun::write_missing() {
  if (!journal_) return;
  WantedShards wanted;
  wanted.is_wanted.assign(static_cast<std::size_t>(conversion_.n_shards()), false);
  for (const std::int64_t shard : missing_shards()) wanted.is_wanted[shard] = true;
  wanted.finished = [this](const shard::ShardEntry& shard) { journal_->add(shard); };
  wanted.progress = options_.progress;
  wanted.stop = options_.stop;
  try {
    cells_per_second_ = conversion_.write_shards(target_, wanted);
  } catch (const Error& error) {
    const auto kind = error.kind();
    if (!options_.names_resume ||
        (kind != ErrorKind::kNoSpace && kind != ErrorKind::kIo && kind != ErrorKind::kCancelled))
      throw;
    throw Error(kind, fmt::format("{}; {}", error.what(), text_of_rest()));
  }
}

void ConversionRun::add(const shard::ShardEntry& shard) {
  if (!journal_ || !is_of_plan(shard))
    throw_error(ErrorKind::kInvalidArgument, options_.output_dir,
                "shard {} of cells {} to {} is not one that this conversion is missing",
                shard.shard, shard.first_cell, shard.first_cell + shard.n_cells);
  journal_->add(shard);
}

void ConversionRun::note(const io::UnfinishedUploads& uploads) {
  n_uploads_removed_ += uploads.n_removed;
  if (!uploads.warning.empty() && std::ranges::find(warnings_, uploads.warning) == warnings_.end())
    warnings_.push_back(uploads.warning);
}

void ConversionRun::remove_leftovers() {
  if (was_finished()) return;
  io::remove_leftovers_in(target_.dir);
  note(shard::remove_unfinished_uploads(target_.dir));
}

void ConversionRun::require_all_shards() const {
  if (const auto missing = missing_shards(); !missing.empty())
    throw_error(ErrorKind::kInvalidArgument, options_.output_dir, "shard {} was not written; {}",
                conversion_.first_shard() + missing.front(), text_of_rest());
}

ConvertResult ConversionRun::finish() {
  shard::Manifest manifest;
  if (journal_) {
    manifest = conversion_.make_manifest();
    if (!options_.base) {
      manifest.genes = genes_;
      manifest.annotations = annotations_;
    }
    target_.dir.remove(shard::first_pass_name(target_.generation));
    manifest = journal_->commit(std::move(manifest));
  } else {
    manifest = *manifest_;
  }
  ConvertResult result = conversion_.result_of(manifest);
  result.n_shards_resumed = n_resumed_;
  result.n_uploads_removed = n_uploads_removed_;
  result.warnings = warnings_;
  result.cells_per_second = cells_per_second_;
  if (journal_)
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  return result;
}

}  // namespace cellfeed::convert
