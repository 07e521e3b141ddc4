# Takes one chart, with its key, out of a page that `granary run --export PAGE.html` has made, as a picture of its own.
#
#   granary run varmail --fs bytefs,ext4,f2fs,nova,pmfs --scale 0.05 --scale-memory --export varmail.html
#   awk -v chart="Written over the host link" -f docs/pictures/chart.awk varmail.html >docs/pictures/varmail.svg
#
# Bars and numbers are the page's. The grey of the text can be read on light and on dark ground.

index($0, "<figcaption>" chart) { inside = 1; gsub(/<[^>]*>/, ""); title = $0; next }
inside && /<svg/ {
    match($0, /viewBox="0 0 [0-9]+ [0-9]+"/)
    split(substr($0, RSTART + 9, RLENGTH - 10), box, " ")
    next
}
inside && /<(rect|text)/ && !/width="-?0\.00"/ { bars = bars $0 "\n" }
inside && /class="key"/ {
    key = ""; x = 90
    while (match($0, /#[0-9a-f]+"><\/i> [^<]*/)) {
        part = substr($0, RSTART, RLENGTH); $0 = substr($0, RSTART + RLENGTH)
        colour = substr(part, 1, 7); name = part; sub(/.*<\/i> /, "", name)
        key = key sprintf("<rect x=\"%d\" y=\"8\" width=\"12\" height=\"12\" fill=\"%s\"/>\n<text x=\"%d\" y=\"19\">%s</text>\n",
            x, colour, x + 18, name)
        x += 150
    }
}
inside && /<\/figure>/ {
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n",
        box[3], box[4] + (key == "" ? 0 : 34), title
    print "<style>text{font:13px system-ui,sans-serif;fill:#768390}</style>"
    printf "%s<g transform=\"translate(0 %d)\">\n%s</g>\n</svg>\n", key, key == "" ? 0 : 34, bars
    exit
}
