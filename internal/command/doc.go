// Package versioncmd is the `version` subcommand of every program. It is separate
// from buildinfo so that a package that needs only the version does not link cobra.
package versioncmd
