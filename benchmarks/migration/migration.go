// Package migration holds the programs of docs/migrating.md: for each library the code before and the code after. The page
// links to the files *_before.go and *_after.go, as a test in docs checks. The tests here check that both behave as the page says.
package migration
