// Package render writes figures for people, the same way in every form. The forms
// are the packages below it: html, md, csv and jsonout. None of them knows where a
// figure comes from.
package render
