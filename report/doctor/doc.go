// Package doctor judges an installation: facts are gathered once, with GET alone, and
// findings come out, each with what was seen, its effect and a fix to paste. A check is a row
// of [All], a pure function of facts, and names the [Source]s that it reads. It changes
// nothing; what could not be read is unknown, never well.
package doctor
