package cli

// Nearest returns the name that a misspelt word probably means, or "". Words that differ in more than a third of
// their letters mean nothing.
func Nearest(word string, names []string) string {
	nearest, least := "", max(1, len(word)/3)+1
	for _, name := range names {
		if d := distance(word, name); d < least {
			nearest, least = name, d
		}
	}
	return nearest
}

// hint returns ": did you mean x?" or "".
func hint(word string, names []string, prefix string) string {
	if nearest := Nearest(word, names); nearest != "" {
		return ": did you mean " + prefix + nearest + "?"
	}
	return ""
}

// distance is the number of letters to insert, remove, replace, or swap with the next one, to make b of a.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 { // nobody misspells such a word
		return max(len(a), len(b))
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
