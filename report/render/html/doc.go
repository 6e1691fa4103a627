// Package html writes the report as one HTML page: no script, no network, pictures
// as inline SVG, readable on a phone, in the dark and on paper. The same report
// gives the same bytes.
package html
