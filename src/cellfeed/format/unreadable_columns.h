// Columns of obs or var whose types cannot be read: tables go without them, and name them.
#pragma once

namespace cellfeed::format {

// The key in the schema metadata of tables of read_obs and read_var. Its value has a line for each
// such column: "obs/score\tits type is ...".
inline constexpr char kUnreadableKey[] = "unreadable";

}  // namespace cellfeed::format
