// What is done to the values of a window, column by column, when it is cut: differences or log
// returns, then a scale of the window's own; and how a prediction is undone. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace cellfeed::series {

enum class WindowStep : std::uint8_t {
  kNone,
  // From a value and the last one before it that is not missing:
  kDifferences,  // v - before
  kLogReturns,   // log(v / before) of values as they were read
};
enum class WindowNorm : std::uint8_t {
  kNone,
  kZscore,  // (v - mean) / standard deviation (of the population) of the window's X
  kLast,    // v - the last value of X
  kMinMax,  // (v - min) / (max - min) of X
};
WindowStep window_step_from_name(std::string_view name);  // throws kInvalidArgument
WindowNorm window_norm_from_name(std::string_view name);  // throws kInvalidArgument

struct ColumnTransform {
  WindowStep step = WindowStep::kNone;
  WindowNorm norm = WindowNorm::kNone;
  bool is_none() const { return step == WindowStep::kNone && norm == WindowNorm::kNone; }
};

// How stored values were made of those that were read.
struct ColumnScale {
  double center = 0, scale = 1;
  double rounding = 0;  // of the stored dtype, relative: what is that close to 0 may have been 0
};

// What is needed to undo it.
struct ColumnUndo {
  double center = 0, scale = 1;  // of the norm; values that are all the same have the scale 1
  // The last value of X that is not missing, before any step; of kLogReturns as it was read.
  double last = 0;
};

// values: `lead` rows before the window, `window` rows of X, then those of y; what was stored.
// Becomes what a model sees; the first `lead` are no longer meaningful. REQUIRES: lead >= 1 with a
// step; window >= 1. Returns false, and leaves values half done, where log returns meet a value
// that is not above 0.
bool transform_column(ColumnTransform transform, ColumnScale stored, std::span<double> values,
                      std::int64_t lead, std::int64_t window, ColumnUndo& undo);
// Predictions of a window's y, one after another, as values that would have been read.
void undo_column(ColumnTransform transform, ColumnScale stored, const ColumnUndo& undo,
                 std::span<double> predictions);

}  // namespace cellfeed::series
