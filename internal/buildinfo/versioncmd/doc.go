// Package versioncmd is the `version` subcommand that every program has. It
// lies apart from buildinfo so that what only wants a version links no cobra.
package versioncmd
