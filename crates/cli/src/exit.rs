//! How a command ends: 0 when it did what it was asked for, 1 when it could not, 2 when it was asked wrongly.

use std::process::ExitCode;

use lakeward_core::Error;

#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The command line or the pipeline file is wrong.
    pub fn usage(error: impl ToString) -> Self {
        Self { code: 2, message: error.to_string() }
    }

    /// What was asked for was not reached.
    pub fn runtime(error: impl ToString) -> Self {
        Self { code: 1, message: error.to_string() }
    }

    /// Says it in one line, and gives the process's exit code.
    pub fn report(self) -> ExitCode {
        let message = self.message.replace(['\n', '\r'], " ");
        eprintln!("error: {message}");
        ExitCode::from(self.code)
    }
}

impl From<Error> for Failure {
    /// An error of a pipeline that was started. One of the file is [`Failure::usage`].
    fn from(error: Error) -> Self {
        Failure::runtime(error)
    }
}
