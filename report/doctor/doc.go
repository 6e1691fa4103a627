// Package doctor checks an installation. It gathers facts once, only with GET requests, and returns findings:
// what was seen, what that means, and a fix to paste. A check is a row of [All]: a pure function of facts
// that declares the [Source]s it reads. Doctor changes nothing. What could not be read is unknown, never ok.
package doctor
