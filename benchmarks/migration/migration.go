// Package migration holds the programs of docs/comparison.md, which links to
// them: for each library the code before and the code after. The tests check
// that both behave as the page says.
package migration
