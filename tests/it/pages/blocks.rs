//! What a page shows as code, and what it says it prints.

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// What it is, as after the opening fence.
    pub(super) info: String,
    /// The line of its opening fence, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

/// A command, and what it prints.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Its first line, counted from 1.
    pub(super) line: usize,
    pub(super) command: String,
    /// Parts of the output, in no order.
    pub(super) expected: Vec<String>,
}

const EXPECTED: &str = "# → ";

/// Every fenced block of a page.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in page.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => {
                open = Some(Block {
                    info: info.to_owned(),
                    line: index + 1,
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert_eq!(open, None, "a block that doesn't end");
    found
}

/// The commands of a block. One begins in the first column; a line `# → a … b` after it says that its output contains `a` and
/// `b`.
pub(super) fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (index, line) in block.text.lines().enumerate() {
        match (line.strip_prefix(EXPECTED), steps.last_mut()) {
            (Some(expected), Some(step)) => {
                step.expected
                    .extend(expected.split(" … ").map(str::to_owned));
            }
            (None, Some(step)) if line.starts_with(' ') => {
                step.command.push_str(line);
                step.command.push('\n');
            }
            _ if line.is_empty() => {}
            _ => steps.push(Step {
                line: block.line + index + 1,
                command: format!("{line}\n"),
                expected: Vec::new(),
            }),
        }
    }
    steps
}

#[test]
fn a_block_is_cut_into_commands_and_what_they_print() {
    let page = "text\n```sh\nX=1\n\ncurl a \\\n  -d b\n# → \"b\":1 … \"c\"\ncurl d   # why\n```\n```json\n{}\n```\n";
    let found = blocks(page);
    assert_eq!(
        (found.len(), found[0].line, found[1].info.as_str()),
        (2, 2, "json")
    );
    let step = |line, command: &str, expected: &[&str]| Step {
        line,
        command: command.to_owned(),
        expected: expected.iter().map(|&part| part.to_owned()).collect(),
    };
    assert_eq!(
        steps(&found[0]),
        [
            step(3, "X=1\n", &[]),
            step(5, "curl a \\\n  -d b\n", &["\"b\":1", "\"c\""]),
            step(8, "curl d   # why\n", &[]),
        ]
    );
}
