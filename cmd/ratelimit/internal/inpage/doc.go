// Package inpage answers the questions of a web page whose worker this program
// is, compiled to WebAssembly.
package inpage
