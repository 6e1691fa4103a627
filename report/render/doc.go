// Package render writes a report as an HTML page and as JSON, and formats its figures.
package render
