// Package doctor judges an installation: facts that were gathered once go in,
// findings come out, each with what was seen, its effect and a fix to
// paste. A check is a row of [All]. It asks nothing and changes nothing; what could
// not be read is unknown, never well.
package doctor
