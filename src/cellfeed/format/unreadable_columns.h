// Columns of obs or var whose types cannot be read: tables go without them, and name them.
#pragma once

namespace cellfeed::format {

// Of the schema metadata of tables that read_obs and read_var give, where there are such columns: a
// line for each, "obs/score\tits type is ...".
inline constexpr char kUnreadableKey[] = "unreadable";

}  // namespace cellfeed::format
