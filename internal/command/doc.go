// Package command has what the command lines of the programs share: help that fits a terminal, errors
// about the line itself, and the subcommand version.
package command
